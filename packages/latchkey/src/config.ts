/** What `latchkey.config.ts` exports by default: what processes beside a service need of it. */
import { checkOptions, type OptionNames } from "./known-options.ts";
import type { Latchkey } from "./latchkey.ts";
import type { Republish } from "./messages/dead-messages.ts";
import type { Metrics } from "./telemetry/metrics.ts";
import type { WorkerOptions } from "./workers/worker.ts";

export interface LatchkeyConfig<Tx> {
  /** With every operation and effect that the worker is to know. */
  readonly latchkey: Latchkey<Tx>;
  /** Options of `startWorker`. */
  readonly worker?: WorkerOptions;
  /** What `latchkey worker --health-port` serves at `/metrics`, with gauges of what waits. Its listener is yours to connect. */
  readonly metrics?: Metrics;
  /** Publishes a dead message again: what `latchkey redrive` does with one. It resolves once the broker has confirmed it. */
  readonly republish?: Republish;
  /** Called at the end: closes pools and what else is open. */
  close?(): Promise<void> | void;
}

/** Every field of a config. */
export const configNames = {
  latchkey: true,
  worker: true,
  metrics: true,
  republish: true,
  close: true,
} as const satisfies OptionNames<LatchkeyConfig<unknown>>;

/**
 * Gives the config back as it is: for its type.
 *
 * @example export default defineConfig({ latchkey, close: () => pool.end() });
 */
export function defineConfig<Tx>(config: LatchkeyConfig<Tx>): LatchkeyConfig<Tx> {
  checkOptions("defineConfig", config, configNames);
  return config;
}
