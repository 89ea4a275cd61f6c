/**
 * The anatomy every background service has: options resolved once, `runOnce` that does one bounded batch and returns
 * counts, and a loop without logic that repeats it. Any number of processes may run the same service.
 */

import type { Runtime } from "../attempt/runtime.ts";
import { pause, timerMaxMs } from "../ports.ts";

export interface ServiceOptions {
  /** Pause between two rounds that found little to do. Default differs per service. */
  readonly intervalMs?: number;
  /** The most records one batch touches. Default differs per service. */
  readonly batchSize?: number;
}

export interface Service<Report> {
  readonly name: string;
  /** One batch, right now. What tests and one-off jobs call. */
  runOnce(): Promise<Report>;
  /** Starts the loop. Starting twice does nothing. */
  start(): void;
  /** Ends the loop after the batch under way. Stopping twice does nothing. */
  stop(): Promise<void>;
}

export interface ServiceDefinition<Report> {
  readonly name: string;
  readonly intervalMs: number;
  readonly runOnce: () => Promise<Report>;
  /** True when a full batch was done and the next should follow at once. */
  readonly hasMore: (report: Report) => boolean;
}

/** Rounds of many processes should not fall together: each pause is between 80 % and 120 % of the interval. */
const jitterShare = 0.2;
const intervalMaxMs = Math.floor(timerMaxMs / (1 + jitterShare));

export function createService<Tx, Report>(
  runtime: Runtime<Tx>,
  definition: ServiceDefinition<Report>,
): Service<Report> {
  let running: AbortController | null = null;
  let done: Promise<unknown> = Promise.resolve();
  return {
    name: definition.name,
    runOnce: definition.runOnce,
    start() {
      if (running !== null) return;
      running = new AbortController();
      // A loop that was stopped may still be in its last batch.
      done = Promise.all([done, loop(runtime, definition, running.signal)]);
    },
    async stop() {
      running?.abort();
      running = null;
      await done;
    },
  };
}

async function loop<Tx, Report>(
  runtime: Runtime<Tx>,
  definition: ServiceDefinition<Report>,
  signal: AbortSignal,
): Promise<void> {
  const { clock, random } = runtime.ports;
  while (!signal.aborted) {
    const more = await round(runtime, definition);
    const jitter = 1 + jitterShare * (2 * random.fraction() - 1);
    if (!more) await pause(clock, definition.intervalMs * jitter, signal);
  }
}

/** An error costs one round, never the service. */
async function round<Tx, Report>(
  runtime: Runtime<Tx>,
  definition: ServiceDefinition<Report>,
): Promise<boolean> {
  try {
    return definition.hasMore(await definition.runOnce());
  } catch (error) {
    runtime.emit({ type: "service_error", service: definition.name, error });
    return false;
  }
}

/** @throws {TypeError} when a value is not a positive whole number, or the interval longer than a timer can be. */
export function resolveServiceOptions(
  name: string,
  options: ServiceOptions,
  defaults: Required<ServiceOptions>,
): Required<ServiceOptions> {
  const resolved = {
    intervalMs: options.intervalMs ?? defaults.intervalMs,
    batchSize: options.batchSize ?? defaults.batchSize,
  };
  for (const [field, value] of Object.entries(resolved)) {
    if (!Number.isSafeInteger(value) || value <= 0) {
      throw new TypeError(`${name}: ${field} must be a positive whole number (got ${value})`);
    }
  }
  if (resolved.intervalMs > intervalMaxMs) {
    throw new TypeError(`${name}: intervalMs must be at most ${intervalMaxMs} (got ${resolved.intervalMs})`);
  }
  return resolved;
}
