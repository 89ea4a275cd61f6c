/** What `latchkey.config.ts` exports by default: what processes that are no server need of a service. */
import type { Latchkey } from "./latchkey.ts";
import type { ServiceHealth } from "./maintenance/service.ts";

export interface StartedWorker {
  stop(): Promise<void>;
  health(): { readonly services: readonly ServiceHealth[] };
}

export interface LatchkeyConfig<Tx> {
  /** With every operation and effect that the worker is to know. */
  readonly latchkey: Latchkey<Tx> & {
    startWorker(options?: object): StartedWorker | Promise<StartedWorker>;
  };
  /** Options of `startWorker`. */
  readonly worker?: object;
  /** Called once the worker has stopped: closes pools and what else is open. */
  close?(): Promise<void> | void;
}

/**
 * Gives the config back as it is: for its type.
 *
 * @example export default defineConfig({ latchkey, close: () => pool.end() });
 */
export function defineConfig<Tx>(config: LatchkeyConfig<Tx>): LatchkeyConfig<Tx> {
  return config;
}
