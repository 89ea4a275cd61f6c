/** A worker: runs what deferred operations were asked for, and everything else that a fleet of services needs done. */
import { withLimit } from "../attempt/limit.ts";
import type { Runtime } from "../attempt/runtime.ts";
import { timerMaxMs } from "../ports.ts";
import { createDispatcher } from "./effect-dispatcher.ts";
import { hearHints } from "./hear-hints.ts";
import { leaseRescuer } from "./lease-rescuer.ts";
import { outcomeReconciler, type ReconcilerOptions } from "./outcome-reconciler.ts";
import { createPendingWork } from "./pending-work.ts";
import { recordCleaner } from "./record-cleaner.ts";
import { resolveServiceOptions, type Service, type ServiceHealth, type ServiceOptions } from "./service.ts";

export interface WorkerOptions {
  /** How many deferred attempts run here at once. Default 10. */
  readonly concurrency?: number;
  /** How often deferred work is looked for that no hint has told of. `false`: none is run here. Default 1 second. */
  readonly pendingWork?: Pick<ServiceOptions, "intervalMs"> | false;
  /**
   * Delivers the outbox; `batchSize` is how many deliveries are under way at once, those not counted of which nothing but
   * the end is left to be written. Default: every second, 250. Left out where the store has no outbox.
   */
  readonly effectDispatcher?: ServiceOptions | false;
  /** Settles or goes on with dead attempts, at most 10 at once. Default: every second, pages of 100. */
  readonly leaseRescuer?: ServiceOptions | false;
  /** Finds out what became of unknowns. Default: every 5 seconds, pages of 20. */
  readonly outcomeReconciler?: ReconcilerOptions | false;
  /** Purges and forgets what is past its time. Default: every minute, pages of 1,000. */
  readonly recordCleaner?: ServiceOptions | false;
  /** How long `stop` waits for what is under way. Default 30 seconds. */
  readonly stopLimitMs?: number;
}

export interface Worker {
  /**
   * Begins nothing more and waits for what is under way, at most `stopLimitMs`; what is not over by then is left to its
   * lease. Answers whether all of it was over in time. Never rejects.
   */
  stop(): Promise<boolean>;
  health(): Promise<WorkerHealth>;
}

export interface WorkerHealth {
  /** The store answers, and every service has come round lately. */
  readonly ok: boolean;
  readonly stopping: boolean;
  readonly store: { readonly answers: boolean; readonly error: unknown };
  readonly services: readonly ServiceHealth[];
}

type AnyService = Service<unknown>;

const healthLimitMs = 2_000;
const everySecond = 1_000;

/**
 * Starts a worker. Any number of them may work for one store, and none needs an option. It keeps its process alive until
 * `stop` has ended.
 *
 * @throws {TypeError} when an option is out of range.
 */
export function startWorker<Tx>(runtime: Runtime<Tx>, options: WorkerOptions = {}): Worker {
  const { stopLimitMs = 30_000 } = options;
  requireCount("stopLimitMs", stopLimitMs, timerMaxMs);
  const pending = pendingWork(runtime, options);
  const dispatcher = dispatcherOf(runtime, options);
  const services = [pending, dispatcher, ...maintenance(runtime, options)].filter((one) => one !== null);
  const deafen = hearHints(runtime, "worker", (hint) => {
    if (hint === "pending") pending?.wake();
    else dispatcher?.wake();
  });
  // Nothing else does while the database is gone.
  const letEnd = runtime.ports.clock.keepAlive();
  for (const service of services) service.start();
  runtime.emit({ type: "worker_started" });
  const stops = [deafen, ...services.map((service) => () => service.stop())];
  let stopped: Promise<boolean> | null = null;
  return {
    stop() {
      stopped ??= stopAll(runtime, stopLimitMs, stops).finally(letEnd);
      return stopped;
    },
    health: () => healthOf(runtime, services, stopped !== null),
  };
}

function pendingWork<Tx>(
  runtime: Runtime<Tx>,
  { concurrency = 10, pendingWork: options = {} }: WorkerOptions,
): AnyService | null {
  requireCount("concurrency", concurrency, 10_000);
  if (options === false) return null;
  const defaults = { intervalMs: everySecond, batchSize: 1 };
  const { intervalMs } = resolveServiceOptions("worker: pendingWork", options, defaults);
  return createPendingWork(runtime, { concurrency, intervalMs });
}

function dispatcherOf<Tx>(
  runtime: Runtime<Tx>,
  { effectDispatcher: options = {} }: WorkerOptions,
): AnyService | null {
  return options === false || runtime.store.outbox === null ? null : createDispatcher(runtime, options);
}

/** Deferred work that is to be tried again is gone on with by the lease-rescuer, so it comes round more often here. */
function maintenance<Tx>(runtime: Runtime<Tx>, options: WorkerOptions): readonly (AnyService | null)[] {
  const rescuing = options.leaseRescuer ?? {};
  const { outcomeReconciler: asking, recordCleaner: cleaning } = options;
  return [
    rescuing === false ? null : leaseRescuer({ runtime }, { intervalMs: everySecond, ...rescuing }),
    asking === false ? null : outcomeReconciler({ runtime }, asking),
    cleaning === false ? null : recordCleaner({ runtime }, cleaning),
  ];
}

async function stopAll<Tx>(
  { ports, emit }: Runtime<Tx>,
  limitMs: number,
  stops: readonly (() => Promise<void>)[],
): Promise<boolean> {
  const ended = await withLimit(ports.clock, limitMs, () => Promise.allSettled(stops.map((stop) => stop())));
  const inTime = ended.kind === "returned";
  emit({ type: "worker_stopped", inTime });
  return inTime;
}

async function healthOf<Tx>(
  { ports, store }: Runtime<Tx>,
  all: readonly AnyService[],
  stopping: boolean,
): Promise<WorkerHealth> {
  const asked = await withLimit(ports.clock, healthLimitMs, () => store.verify());
  const answers = asked.kind === "returned";
  const late = () => new Error(`The store did not answer within ${healthLimitMs} ms`);
  const error = answers ? null : asked.kind === "threw" ? asked.error : late();
  const services = all.map((service) => service.health());
  const ok = answers && !stopping && services.every(({ alive }) => alive);
  return { ok, stopping, store: { answers, error }, services };
}

function requireCount(field: string, value: number, max: number): void {
  if (!Number.isSafeInteger(value) || value <= 0 || value > max) {
    throw new TypeError(`worker: ${field} must be a whole number from 1 to ${max} (got ${value})`);
  }
}
