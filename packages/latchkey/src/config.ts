/** What `latchkey.config.ts` exports by default: what processes beside a service need of it. */
import type { Latchkey } from "./latchkey.ts";
import type { WorkerOptions } from "./maintenance/worker.ts";
import type { Republish } from "./messages/dead-messages.ts";

export interface LatchkeyConfig<Tx> {
  /** With every operation and effect that the worker is to know. */
  readonly latchkey: Latchkey<Tx>;
  /** Options of `startWorker`. */
  readonly worker?: WorkerOptions;
  /** Publishes a dead message again: what `latchkey redrive` does with one. It resolves once the broker has confirmed it. */
  readonly republish?: Republish;
  /** Called at the end: closes pools and what else is open. */
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
