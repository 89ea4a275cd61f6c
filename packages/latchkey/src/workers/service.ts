/**
 * The anatomy of every background service: options resolved once, `runOnce` for one bounded batch, which returns counts, and a
 * loop that repeats it, or `round` where a round does not wait for the work that it begins. Any number of processes may run the same service.
 */

import type { Runtime } from "../execution/runtime.ts";
import { checkOptions, type OptionNames } from "../known-options.ts";
import { pause, timerMaxMs } from "../ports.ts";
import { withLimit } from "../time/time-limit.ts";

export interface ServiceOptions {
  /** Pause after a round without a full batch, ±20 %. The default differs per service. */
  readonly intervalMs?: number;
  /** Maximum number of records in a batch. The default differs per service. */
  readonly batchSize?: number;
}

/** The part of a latchkey that services need. */
export interface Served<Tx> {
  readonly runtime: Runtime<Tx>;
}

export interface Service<Report> {
  readonly name: string;
  /** Runs one batch now, for tests and one-off jobs. */
  runOnce(): Promise<Report>;
  /** Starts the loop. Starting twice does nothing. */
  start(): void;
  /** Ends the loop after the current batch. Stopping twice does nothing. */
  stop(): Promise<void>;
  /** Begins the next round now, or right after the current one. Does nothing if the loop is not running. */
  wake(): void;
  health(): ServiceHealth;
}

export interface ServiceHealth {
  readonly name: string;
  readonly running: boolean;
  /** When the last round ended or the loop began, by the process's clock, in milliseconds since the Unix epoch. */
  readonly lastRoundAt: number | null;
  /** The error of the last round; null: it succeeded. */
  readonly lastError: unknown;
  /** False if the loop runs but no round has ended for longer than a round and two pauses may take. */
  readonly alive: boolean;
}

/** A service that a one-shot worker can use, too. */
export interface LookingService<Report> extends Service<Report> {
  readonly intervalMs: number;
  /** The report of a look that found nothing. */
  readonly nothing: Report;
  /** Begins due work up to the capacity, without waiting for it to end. `signal` as in `runOnce`. */
  look(signal: AbortSignal): Promise<Look<Report>>;
  /** From now on calls `wake`, instead of the loop's own, when there is capacity again for work that may be due. */
  onCapacity(wake: () => void): void;
}

/** The result of a look. Its report is the sum of `done` and of the results of `begun`. */
export interface Look<Report> {
  readonly done: Partial<Report>;
  readonly begun: readonly Promise<Partial<Report>>[];
  /** Whether another look at once may find more. False if it would only find the same again. */
  readonly mayHaveMore: boolean;
  /** How long due work has to wait, as for a rate; null: none waits. */
  readonly waitMs: number | null;
}

export interface ServiceDefinition<Report> {
  readonly name: string;
  readonly intervalMs: number;
  /** `signal` aborts when the round has taken too long. */
  readonly runOnce: (signal: AbortSignal) => Promise<Report>;
  /** True after a full batch, so that the next follows at once. */
  readonly hasMore: (report: Report) => boolean;
  /** The loop calls this instead of `runOnce` if a round does not wait for the work that it begins. */
  readonly round?: (signal: AbortSignal) => Promise<Report>;
}

/** Each pause is between 80 % and 120 % of the interval, so that rounds of many processes do not coincide. */
const jitterShare = 0.2;
const intervalMaxMs = Math.floor(timerMaxMs / (1 + jitterShare));
/** How long to wait for a round that hangs. Its later writes are still guarded by leases and fences. */
const roundLimitMs = 60_000;

interface Loop {
  readonly stop: AbortController;
  /** Ends the pause. */
  idle: AbortController;
  woken: boolean;
}

interface RoundHealth {
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
  const roundHealth: RoundHealth = { lastRoundMs: null, lastRoundAt: null, lastError: null };
  let running: Loop | null = null;
  let done: Promise<unknown> = Promise.resolve();
  return {
    name,
    runOnce: () => definition.runOnce(new AbortController().signal),
    start() {
      if (running !== null) return;
      running = { stop: new AbortController(), idle: new AbortController(), woken: false };
      noteRound(runtime, roundHealth, null);
      // A stopped loop may still be in its last batch.
      done = Promise.all([done, loop(runtime, definition, running, roundHealth)]);
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
      // An explicit reason, because the default one costs a stack trace.
      running.idle.abort("woken");
    },
    health() {
      const quietMs = roundHealth.lastRoundMs === null ? 0 : clock.monotonicMs() - roundHealth.lastRoundMs;
      const alive = running === null || quietMs <= roundLimitMs + 2 * (1 + jitterShare) * intervalMs;
      const { lastRoundAt, lastError } = roundHealth;
      return { name, running: running !== null, lastRoundAt, lastError, alive };
    },
  };
}

function noteRound<Tx>({ ports: { clock } }: Runtime<Tx>, roundHealth: RoundHealth, error: unknown): void {
  roundHealth.lastRoundMs = clock.monotonicMs();
  roundHealth.lastRoundAt = clock.wallMs();
  roundHealth.lastError = error;
}

async function loop<Tx, Report>(
  runtime: Runtime<Tx>,
  definition: ServiceDefinition<Report>,
  running: Loop,
  roundHealth: RoundHealth,
): Promise<void> {
  const { clock, random } = runtime.ports;
  const { signal } = running.stop;
  while (!signal.aborted) {
    running.woken = false;
    running.idle = new AbortController();
    const next = await round(runtime, definition, roundHealth);
    if (next === "at_once" || signal.aborted) continue;
    const pauseMs = definition.intervalMs * (1 + jitterShare * (2 * random.fraction() - 1));
    // After an error hints are ignored: they could cause a busy loop.
    if (next === "failed") await pause(clock, pauseMs, signal, "background");
    else if (!running.woken) await pause(clock, pauseMs, running.idle.signal, "background");
  }
}

/** An error ends one round, never the service. */
async function round<Tx, Report>(
  runtime: Runtime<Tx>,
  { name, round: once, runOnce, hasMore }: ServiceDefinition<Report>,
  roundHealth: RoundHealth,
): Promise<"at_once" | "pause" | "failed"> {
  const over = new AbortController();
  const work = () => (once ?? runOnce)(over.signal);
  const ran = await withLimit(runtime.ports.clock, roundLimitMs, work, undefined, "background");
  if (ran.kind === "returned") {
    noteRound(runtime, roundHealth, null);
    return hasMore(ran.value) ? "at_once" : "pause";
  }
  const error = ran.kind === "threw" ? ran.error : new Error(`A round took longer than ${roundLimitMs} ms`);
  over.abort(error);
  noteRound(runtime, roundHealth, error);
  runtime.emit({ type: "service_error", service: name, error });
  return "failed";
}

const serviceOptions = { intervalMs: true, batchSize: true } as const satisfies OptionNames<ServiceOptions>;

/** @throws {TypeError} when a value is not a positive whole number, or the interval exceeds a timer's maximum. */
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
