/** What `latchkey.config.ts` exports by default: what a worker process needs of a service. */
import type { Latchkey } from "./latchkey.ts";
import type { WorkerOptions } from "./maintenance/worker.ts";

export interface LatchkeyConfig<Tx> {
  /** With every operation and effect that the worker is to know. */
  readonly latchkey: Latchkey<Tx>;
  /** Options of `startWorker`. */
  readonly worker?: WorkerOptions;
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
