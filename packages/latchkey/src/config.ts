/** The default export of `latchkey.config.ts`: what the command and separate worker processes need from the service. */
import { checkOptions, type OptionNames } from "./known-options.ts";
import type { Latchkey } from "./latchkey.ts";
import type { Republish } from "./messages/dead-messages.ts";
import type { Metrics } from "./telemetry/metrics.ts";
import type { WorkerOptions } from "./workers/worker.ts";

export interface LatchkeyConfig<Tx> {
  /** With every operation and effect that the worker is to run. */
  readonly latchkey: Latchkey<Tx>;
  /** Options of `startWorker`. */
  readonly worker?: WorkerOptions;
  /** Served by `latchkey worker --health-port` at `/metrics`, with gauges of the backlog. Connect its listener yourself. */
  readonly metrics?: Metrics;
  /** Publishes a dead message again; `latchkey redrive` calls it. It resolves once the broker has confirmed the message. */
  readonly republish?: Republish;
  /** Called at the end: closes pools and everything else that is open. */
  close?(): Promise<void> | void;
}

export const configNames = {
  latchkey: true,
  worker: true,
  metrics: true,
  republish: true,
  close: true,
} as const satisfies OptionNames<LatchkeyConfig<unknown>>;

/**
 * Returns the config unchanged; it exists for its type.
 *
 * @example export default defineConfig({ latchkey, close: () => pool.end() });
 */
export function defineConfig<Tx>(config: LatchkeyConfig<Tx>): LatchkeyConfig<Tx> {
  checkOptions("defineConfig", config, configNames);
  return config;
}
