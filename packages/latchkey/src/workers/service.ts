/**
 * The anatomy every background service has: options resolved once, `runOnce` that does one bounded batch and returns
 * counts, and a loop without logic that repeats it. Any number of processes may run the same service.
 */

import type { Runtime } from "../execution/runtime.ts";
import { checkOptions, type OptionNames } from "../known-options.ts";
import { pause, timerMaxMs } from "../ports.ts";
import { withLimit } from "../time/time-limit.ts";

export interface ServiceOptions {
  /** Pause between two rounds that found little to do. Default differs per service. */
  readonly intervalMs?: number;
  /** The most records one batch touches. Default differs per service. */
  readonly batchSize?: number;
}

/** What a service works for: a latchkey. */
export interface Served<Tx> {
  readonly runtime: Runtime<Tx>;
}

export interface Service<Report> {
  readonly name: string;
  /** One batch, right now. What tests and one-off jobs call. */
  runOnce(): Promise<Report>;
  /** Starts the loop. Starting twice does nothing. */
  start(): void;
  /** Ends the loop after the batch under way. Stopping twice does nothing. */
  stop(): Promise<void>;
  /** The next round begins now, or right after the one under way. For a loop that does not run it does nothing. */
  wake(): void;
  health(): ServiceHealth;
}

export interface ServiceHealth {
  readonly name: string;
  readonly running: boolean;
  /** When the loop's last round ended, or the loop began; process time in milliseconds since the Unix epoch. */
  readonly lastRoundAt: number | null;
  /** What the last round failed with; null: it did not. */
  readonly lastError: unknown;
  /** False when the loop runs and no round of it has ended for longer than a round and two pauses may take. */
  readonly alive: boolean;
}

/** A service that a worker which runs once may use, too. */
export interface LookingService<Report> extends Service<Report> {
  readonly intervalMs: number;
  /** The report of a look that found nothing. */
  readonly nothing: Report;
  /** Begins what is due, as far as there is room, and does not wait for its end. `signal` as in `runOnce`. */
  look(signal: AbortSignal): Promise<Look<Report>>;
  /** From now on `wake` is called, and not the loop's own, when there is room again for what may be due. */
  onRoom(wake: () => void): void;
}

/** What one look came to. The report of the whole is the sum of `done` and of what `begun` resolves to. */
export interface Look<Report> {
  readonly done: Partial<Report>;
  readonly begun: readonly Promise<Partial<Report>>[];
  /** Whether another look at once may find more. False where the same would only be found again. */
  readonly mayHaveMore: boolean;
  /** How long until the turn of something that is due and has to wait; null: nothing waits. */
  readonly waitMs: number | null;
}

export interface ServiceDefinition<Report> {
  readonly name: string;
  readonly intervalMs: number;
  /** `signal` aborts when the round's time is over. */
  readonly runOnce: (signal: AbortSignal) => Promise<Report>;
  /** True when a full batch was done and the next should follow at once. */
  readonly hasMore: (report: Report) => boolean;
  /** What the loop does instead of `runOnce`, where a round does not wait for what it has begun. */
  readonly round?: (signal: AbortSignal) => Promise<Report>;
}

/** Rounds of many processes should not fall together: each pause is between 80 % and 120 % of the interval. */
const jitterShare = 0.2;
const intervalMaxMs = Math.floor(timerMaxMs / (1 + jitterShare));
/** A round that hangs is not waited for any longer. What it still does is guarded like everything else. */
const roundLimitMs = 60_000;

interface Loop {
  readonly stop: AbortController;
  /** Ends the pause. */
  idle: AbortController;
  woken: boolean;
}

interface Pulse {
  lastRoundMs: number | null;
  lastRoundAt: number | null;
  lastError: unknown;
}

export function createService<Tx, Report>(
  runtime: Runtime<Tx>,
  definition: ServiceDefinition<Report>,
): Service<Report> {
  const { name, intervalMs } = definition;
  const { clock } = runtime.ports;
  const pulse: Pulse = { lastRoundMs: null, lastRoundAt: null, lastError: null };
  let running: Loop | null = null;
  let done: Promise<unknown> = Promise.resolve();
  return {
    name,
    runOnce: () => definition.runOnce(new AbortController().signal),
    start() {
      if (running !== null) return;
      running = { stop: new AbortController(), idle: new AbortController(), woken: false };
      beat(runtime, pulse, null);
      // A loop that was stopped may still be in its last batch.
      done = Promise.all([done, loop(runtime, definition, running, pulse)]);
    },
    async stop() {
      running?.stop.abort();
      running?.idle.abort();
      running = null;
      await done;
    },
    wake() {
      if (running === null || running.woken) return;
      running.woken = true;
      // With a reason of its own, as the default one costs a stack trace.
      running.idle.abort("woken");
    },
    health() {
      const quietMs = pulse.lastRoundMs === null ? 0 : clock.monotonicMs() - pulse.lastRoundMs;
      const alive = running === null || quietMs <= roundLimitMs + 2 * (1 + jitterShare) * intervalMs;
      const { lastRoundAt, lastError } = pulse;
      return { name, running: running !== null, lastRoundAt, lastError, alive };
    },
  };
}

function beat<Tx>({ ports: { clock } }: Runtime<Tx>, pulse: Pulse, error: unknown): void {
  pulse.lastRoundMs = clock.monotonicMs();
  pulse.lastRoundAt = clock.wallMs();
  pulse.lastError = error;
}

async function loop<Tx, Report>(
  runtime: Runtime<Tx>,
  definition: ServiceDefinition<Report>,
  running: Loop,
  pulse: Pulse,
): Promise<void> {
  const { clock, random } = runtime.ports;
  const { signal } = running.stop;
  while (!signal.aborted) {
    running.woken = false;
    running.idle = new AbortController();
    const next = await round(runtime, definition, pulse);
    if (next === "at_once" || signal.aborted) continue;
    const pauseMs = definition.intervalMs * (1 + jitterShare * (2 * random.fraction() - 1));
    // After an error hints do not count: they could make it a busy loop.
    if (next === "failed") await pause(clock, pauseMs, signal, "background");
    else if (!running.woken) await pause(clock, pauseMs, running.idle.signal, "background");
  }
}

/** An error costs one round, never the service. */
async function round<Tx, Report>(
  runtime: Runtime<Tx>,
  { name, round: once, runOnce, hasMore }: ServiceDefinition<Report>,
  pulse: Pulse,
): Promise<"at_once" | "pause" | "failed"> {
  const over = new AbortController();
  const work = () => (once ?? runOnce)(over.signal);
  const ran = await withLimit(runtime.ports.clock, roundLimitMs, work, undefined, "background");
  if (ran.kind === "returned") {
    beat(runtime, pulse, null);
    return hasMore(ran.value) ? "at_once" : "pause";
  }
  const error = ran.kind === "threw" ? ran.error : new Error(`A round took longer than ${roundLimitMs} ms`);
  over.abort(error);
  beat(runtime, pulse, error);
  runtime.emit({ type: "service_error", service: name, error });
  return "failed";
}

const serviceOptions = { intervalMs: true, batchSize: true } as const satisfies OptionNames<ServiceOptions>;

/** @throws {TypeError} when a value is not a positive whole number, or the interval longer than a timer can be. */
export function resolveServiceOptions(
  name: string,
  options: ServiceOptions,
  defaults: Required<ServiceOptions>,
): Required<ServiceOptions> {
  checkOptions(name, options, serviceOptions);
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
