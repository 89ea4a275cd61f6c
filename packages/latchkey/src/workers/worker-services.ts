/** What a worker is made of: its options, and the services that they ask for. */

import type { Runtime } from "../execution/runtime.ts";
import { checkOptions, type OptionNames } from "../known-options.ts";
import { timerMaxMs } from "../ports.ts";
import { createDispatcher, type DispatchReport } from "./effect-dispatcher.ts";
import { createRescuer, type RescueReport, type RunsHere } from "./lease-rescuer.ts";
import { createReconciler, type ReconcileReport, type ReconcilerOptions } from "./outcome-reconciler.ts";
import { createPendingWork, type PendingReport } from "./pending-work.ts";
import { type CleanerOptions, type CleanerReport, createCleaner } from "./record-cleaner.ts";
import { type LookingService, resolveServiceOptions, type ServiceOptions } from "./service.ts";

export interface WorkerOptions {
  /** How many deferred attempts run here at once. Default 10. */
  readonly concurrency?: number;
  /**
   * How often deferred work is looked for that no hint has announced. `false`: this process runs no deferred work, neither
   * new nor that of a worker that has died. Default 1 second.
   */
  readonly pendingWork?: Pick<ServiceOptions, "intervalMs"> | false;
  /**
   * Delivers the outbox; `batchSize` is how many deliveries are under way at once, those not counted of which nothing but
   * the end is left to be written. Default: every second, 250. Left out where the store has no outbox.
   */
  readonly effectDispatcher?: ServiceOptions | false;
  /**
   * Settles or goes on with dead attempts, at most 10 at once. `false`: deferred work that failed or whose worker died
   * waits for a process where this is on. Default: every second, pages of 100.
   */
  readonly leaseRescuer?: ServiceOptions | false;
  /** Finds out what became of unknowns. Default: every 5 seconds, pages of 20. */
  readonly outcomeReconciler?: ReconcilerOptions | false;
  /** Purges and forgets what is past its time. Default: every minute, pages of 1,000; audit rows after 5 years. */
  readonly recordCleaner?: CleanerOptions | false;
  /** How long `stop` waits for what is under way. Default 30 seconds. */
  readonly stopLimitMs?: number;
}

/** Null: the options leave it out, or the store has nothing for it to do. */
export interface WorkerServices {
  readonly pending: LookingService<PendingReport> | null;
  readonly dispatcher: LookingService<DispatchReport> | null;
  readonly rescuer: LookingService<RescueReport> | null;
  readonly reconciler: LookingService<ReconcileReport> | null;
  readonly cleaner: LookingService<CleanerReport> | null;
  /** Those that are there. */
  readonly all: readonly LookingService<unknown>[];
}

export const workerOptionNames = {
  concurrency: true,
  pendingWork: true,
  effectDispatcher: true,
  leaseRescuer: true,
  outcomeReconciler: true,
  recordCleaner: true,
  stopLimitMs: true,
} as const satisfies OptionNames<WorkerOptions>;

const everySecond = 1_000;

/** @throws {TypeError} when an option is out of range. */
export function servicesOf<Tx>(runtime: Runtime<Tx>, options: WorkerOptions): WorkerServices {
  const rescuing = options.leaseRescuer ?? {};
  const runsHere: RunsHere = ({ execution }) => execution !== "deferred" || options.pendingWork !== false;
  const { outcomeReconciler: asking, recordCleaner: cleaning } = options;
  const pending = pendingWork(runtime, options);
  const dispatcher = dispatcherOf(runtime, options);
  // Deferred work that is to be tried again is gone on with by it, so it comes round more often here.
  const rescuer =
    rescuing === false ? null : createRescuer(runtime, { intervalMs: everySecond, ...rescuing }, runsHere);
  const reconciler = asking === false ? null : createReconciler(runtime, asking ?? {});
  const cleaner = cleaning === false ? null : createCleaner(runtime, cleaning ?? {});
  const all = [pending, dispatcher, rescuer, reconciler, cleaner].filter((one) => one !== null);
  return { pending, dispatcher, rescuer, reconciler, cleaner, all };
}

/** @throws {TypeError} when it is out of range. */
export function stopLimitOf({ stopLimitMs = 30_000 }: Pick<WorkerOptions, "stopLimitMs">): number {
  requireCount("stopLimitMs", stopLimitMs, timerMaxMs);
  return stopLimitMs;
}

function pendingWork<Tx>(
  runtime: Runtime<Tx>,
  { concurrency = 10, pendingWork: options = {} }: WorkerOptions,
): LookingService<PendingReport> | null {
  requireCount("concurrency", concurrency, 10_000);
  if (options === false) return null;
  const defaults = { intervalMs: everySecond, batchSize: 1 };
  checkOptions("worker: pendingWork", options, { intervalMs: true });
  const { intervalMs } = resolveServiceOptions("worker: pendingWork", options, defaults);
  return createPendingWork(runtime, { concurrency, intervalMs });
}

function dispatcherOf<Tx>(
  runtime: Runtime<Tx>,
  { effectDispatcher: options = {} }: WorkerOptions,
): LookingService<DispatchReport> | null {
  return options === false || runtime.store.outbox === null ? null : createDispatcher(runtime, options);
}

export function requireCount(field: string, value: number, max: number): void {
  if (!Number.isSafeInteger(value) || value <= 0 || value > max) {
    throw new TypeError(`worker: ${field} must be a whole number from 1 to ${max} (got ${value})`);
  }
}
