/** A worker's options, and the services that they create. */

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
   * How often to look for deferred work that no hint announced. `false`: this process runs no deferred work, neither new nor
   * that of a dead worker. Default 1 second.
   */
  readonly pendingWork?: Pick<ServiceOptions, "intervalMs"> | false;
  /**
   * Delivers the outbox; `batchSize` is how many deliveries run at once, without those that only wait for their end to be
   * written. Default: every second, 250. Left out if the store has no outbox.
   */
  readonly effectDispatcher?: ServiceOptions | false;
  /**
   * Settles or resumes dead attempts, at most 10 at once. `false`: deferred work that failed or whose worker died waits for a
   * process where this is on. Default: every second, pages of 100.
   */
  readonly leaseRescuer?: ServiceOptions | false;
  /** Looks up the outcome of unknown records. Default: every 5 seconds, pages of 20. */
  readonly outcomeReconciler?: ReconcilerOptions | false;
  /** Purges and forgets expired records. Default: every minute, pages of 1,000; audit rows after 5 years. */
  readonly recordCleaner?: CleanerOptions | false;
  /** How long `stop` waits for running work. Default 30 seconds. */
  readonly stopLimitMs?: number;
}

/** Null: the options leave the service out, or the store has nothing for it to do. */
export interface WorkerServices {
  readonly pending: LookingService<PendingReport> | null;
  readonly dispatcher: LookingService<DispatchReport> | null;
  readonly rescuer: LookingService<RescueReport> | null;
  readonly reconciler: LookingService<ReconcileReport> | null;
  readonly cleaner: LookingService<CleanerReport> | null;
  /** Those that are not null. */
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
  // More often than by default, because it also resumes deferred work that is to be retried.
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
