/** A one-shot worker: it does all due work and ends. For functions and jobs that a schedule starts. */

import { LatchkeyError } from "../errors.ts";
import type { Runtime } from "../execution/runtime.ts";
import { checkOptions, type OptionNames } from "../known-options.ts";
import { timerMaxMs } from "../ports.ts";
import { withLimit } from "../time/time-limit.ts";
import { Drain, type DrainEnd, type ServiceFailure } from "./drain.ts";
import type { DispatchReport } from "./effect-dispatcher.ts";
import type { RescueReport } from "./lease-rescuer.ts";
import type { ReconcileReport } from "./outcome-reconciler.ts";
import type { PendingReport } from "./pending-work.ts";
import type { CleanerReport } from "./record-cleaner.ts";
import type { LookingService } from "./service.ts";
import {
  requireCount,
  servicesOf,
  stopLimitOf,
  type WorkerOptions,
  type WorkerServices,
  workerOptionNames,
} from "./worker-services.ts";

/**
 * The options of a worker, so that one config serves both. Intervals are how often a service looks again while others are
 * busy.
 */
export interface WorkOptions extends WorkerOptions {
  /**
   * How long new work may be begun, in milliseconds from now. After that the worker waits up to `stopLimitMs` for running work:
   * the sum of both must fit into the platform's time limit. Default 60 seconds.
   */
  readonly untilMs?: number;
  /** Ends the worker early, as `untilMs` does. */
  readonly signal?: AbortSignal;
}

/** Null: the options leave the service out, or the store has nothing for it to do. */
export interface WorkReport {
  /** `nothing_due`: all due work is done. `time_over`, `aborted` (also by `latchkey.close`): the next start continues. */
  readonly ended: DrainEnd;
  /** Whether all work that was begun ended within `stopLimitMs`. The rest is taken over once its leases end. */
  readonly inTime: boolean;
  readonly pendingWork: PendingReport | null;
  readonly effectDispatcher: DispatchReport | null;
  readonly leaseRescuer: RescueReport | null;
  readonly outcomeReconciler: ReconcileReport | null;
  readonly recordCleaner: CleanerReport | null;
}

/** A service of a one-shot worker failed to use the store. The other services continued; `report` has their work. */
export class WorkFailed extends LatchkeyError {
  override readonly name = "WorkFailed";
  readonly report: WorkReport;
  /** Names of the services that failed. */
  readonly services: readonly string[];

  constructor(report: WorkReport, failures: readonly ServiceFailure[]) {
    const services = failures.map(({ service }) => service);
    const message = `Failed: ${services.join(", ")}. The next start does the work they left.`;
    super("work-failed", { message, cause: failures[0]?.error });
    this.report = report;
    this.services = services;
  }
}

const workOptionNames = {
  ...workerOptionNames,
  untilMs: true,
  signal: true,
} as const satisfies OptionNames<WorkOptions>;
const untilDefaultMs = 60_000;

/**
 * See `Latchkey.work`.
 *
 * @throws {TypeError} when an option is out of range.
 * @throws {WorkFailed}
 */
export async function work<Tx>(runtime: Runtime<Tx>, options: WorkOptions = {}): Promise<WorkReport> {
  checkOptions("work", options, workOptionNames);
  const { untilMs = untilDefaultMs, signal } = options;
  requireCount("untilMs", untilMs, timerMaxMs);
  const stopLimitMs = stopLimitOf(options);
  if (runtime.lifecycle.isClosing) throw new TypeError("work: latchkey.close() was called");
  const services = servicesOf(runtime, options);
  const drain = new Drain(runtime, services.all);
  const report = runToEnd(runtime, drain, services, { untilMs, signal, stopLimitMs });
  const stop = runtime.lifecycle.stopping(async () => {
    drain.end("aborted");
    return wasInTime(report);
  });
  return report.finally(stop);
}

function wasInTime(report: Promise<WorkReport>): Promise<boolean> {
  return report.then(
    ({ inTime }) => inTime,
    (error: unknown) => error instanceof WorkFailed && error.report.inTime,
  );
}

interface Limits {
  readonly untilMs: number;
  readonly signal: AbortSignal | undefined;
  readonly stopLimitMs: number;
}

async function runToEnd<Tx>(
  runtime: Runtime<Tx>,
  drain: Drain<Tx>,
  services: WorkerServices,
  { untilMs, signal, stopLimitMs }: Limits,
): Promise<WorkReport> {
  const { clock } = runtime.ports;
  const releaseKeepAlive = clock.keepAlive();
  const cancelTimer = clock.startTimer(untilMs, () => drain.end("time_over"), "background");
  const abort = () => drain.end("aborted");
  signal?.addEventListener("abort", abort, { once: true });
  // Only this process's hints: looking finds the work of other processes.
  const unsubscribe = runtime.hints.listen((hint) => {
    drain.wake(hint === "pending" ? services.pending : services.dispatcher);
  });
  runtime.emit({ type: "worker_started" });
  if (signal?.aborted) abort();
  const ended = await drain.run();
  const over = await withLimit(clock, stopLimitMs, () => drain.whenIdle());
  const inTime = over.kind === "returned";
  unsubscribe();
  cancelTimer();
  signal?.removeEventListener("abort", abort);
  releaseKeepAlive();
  runtime.emit({ type: "worker_stopped", inTime });
  const report = reportOf(drain, services, ended, inTime);
  if (drain.failures.length > 0) throw new WorkFailed(report, drain.failures);
  return report;
}

function reportOf<Tx>(
  drain: Drain<Tx>,
  { pending, dispatcher, rescuer, reconciler, cleaner }: WorkerServices,
  ended: DrainEnd,
  inTime: boolean,
): WorkReport {
  const total = <R>(service: LookingService<R> | null) => (service === null ? null : drain.totalOf(service));
  return {
    ended,
    inTime,
    pendingWork: total(pending),
    effectDispatcher: total(dispatcher),
    leaseRescuer: total(rescuer),
    outcomeReconciler: total(reconciler),
    recordCleaner: total(cleaner),
  };
}
