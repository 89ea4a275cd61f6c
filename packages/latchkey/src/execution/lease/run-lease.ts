/**
 * `lease` execution: the reservation commits first, a heartbeat keeps it, and the end of the attempt is a fenced write.
 * For work outside the database.
 */
import { type InProgressRecord, type LatchkeyRecord, sameFence } from "../../engine/record.ts";
import type { Result, Work } from "../../operations/attempt.ts";
import type { Operation } from "../../operations/operation.ts";
import type { AttemptEnd } from "../../stores/store.ts";
import type { TraceSpan } from "../../telemetry/tracing.ts";
import { withLimit } from "../../time/time-limit.ts";
import { checkSubmission, countingNewKey, limited, report, resultFromRecord } from "../admission.ts";
import { noteAttempt, noteEnd, type Submitted, withSpan } from "../attempt-span.ts";
import { settleWithEarly } from "../early-settlement.ts";
import { createHandle, sentKeyOf } from "../handle.ts";
import { answerOfCopy } from "../replay-lookup.ts";
import type { Runtime } from "../runtime.ts";
import { waiting } from "../shared-wait.ts";
import { type Admitted, admit, type LeaseJob, mayStart } from "./admit-lease.ts";
import { type Ended, endAttempt } from "./end-attempt.ts";
import { handlerWork } from "./handler-work.ts";
import { type HeldLease, holdLease } from "./held-lease.ts";
import { settleLate } from "./late-settlement.ts";
import { reportAdmission, reportEnd } from "./lease-events.ts";
import { resultOfOwner } from "./lease-result.ts";
import type { Conclusion, LeasedWork } from "./leased-work.ts";

const doubtRetryAfterMs = 2_000;

export async function runLease<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  submission: Submitted,
  work: Work<Tx, "lease">,
): Promise<Result> {
  return runLeasedWork(runtime, operation, submission, handlerWork(runtime, operation, work));
}

/** Runs a request's submission. */
export async function runLeasedWork<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  submission: Submitted,
  leasedWork: LeasedWork,
): Promise<Result> {
  checkSubmission(submission);
  const lookup = await limited(runtime, operation, submission, "lookups");
  const { waitMs } = operation.settings;
  let began = false;
  const begin = (onHandlerStart: () => void = () => {}) =>
    countingNewKey(runtime, operation, submission, (countNewKey) =>
      untilEnded(
        {
          runtime,
          operation,
          submission,
          leasedWork,
          by: "request",
          countNewKey,
          token: runtime.ports.random.token(),
        },
        () => {
          began = true;
          onHandlerStart();
        },
      ),
    );
  const result =
    lookup ??
    (await answerOfCopy(runtime, operation, submission)) ??
    (await (waitMs === false ? begin() : waiting(runtime, operation, submission, waitMs, begin)));
  report(runtime, operation, submission, result, began);
  return result;
}

/** If a call in doubt turns out to have happened, the attempt continues at once. Each round uses one early settlement. */
async function untilEnded<Tx>(first: LeaseJob<Tx>, onHandlerStart: () => void = () => {}): Promise<Result> {
  for (let job = first; ; job = { ...job, token: job.runtime.ports.random.token() }) {
    const admitted = await admit(job);
    if (!("record" in admitted)) return admitted;
    onHandlerStart();
    const result = await perform(job, admitted);
    if (result !== null) return result;
  }
}

/** A worker continues a record. If it finds the record in another state, that is the result. */
export async function resumeLeasedWork<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  record: LatchkeyRecord,
  leasedWork: LeasedWork,
  span: TraceSpan | null,
): Promise<Result> {
  return untilEnded(workersJob(runtime, operation, record, leasedWork, runtime.ports.random.token(), span));
}

/**
 * A worker starts on a record that it has claimed.
 *
 * @param claimedAtMs monotonic time before the claim was sent, from which its lease counts
 */
export async function claimedLeasedWork<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  record: InProgressRecord,
  leasedWork: LeasedWork,
  claimedAtMs: number,
  span: TraceSpan | null,
): Promise<Result> {
  const job = workersJob(runtime, operation, record, leasedWork, record.fence.token, span);
  const claimed = {
    record,
    ownedUntilMs: claimedAtMs + operation.settings.leaseMs,
    from: "pending",
  } as const;
  reportAdmission(job, claimed, new Set());
  const admitted = mayStart(job, claimed) ? claimed : await admit(job);
  if (!("record" in admitted)) return admitted;
  const result = await perform(job, admitted);
  return result ?? untilEnded({ ...job, token: runtime.ports.random.token() });
}

function workersJob<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  { tenant, scope, key, fingerprint, principal }: LatchkeyRecord,
  leasedWork: LeasedWork,
  token: string,
  span: TraceSpan | null,
): LeaseJob<Tx> {
  const clientKey = runtime.clientKeyOfStored({ tenant, scope, key });
  return {
    runtime,
    operation,
    submission: withSpan({ key: { tenant, scope, key }, clientKey, fingerprint, principal }, span),
    leasedWork,
    by: "worker",
    // The life that the worker was to continue is over.
    countNewKey: async () => ({ kind: "expired" }),
    token,
  };
}

/** Null: the outcome came into doubt, and an early settlement lets the life continue. */
async function perform<Tx>(job: LeaseJob<Tx>, admitted: Admitted): Promise<Result | null> {
  const { runtime, operation, submission } = job;
  const { record, ownedUntilMs } = admitted;
  const about = { ...runtime.about(operation.name, submission.key), recordId: record.id };
  const held = holdLease(runtime, {
    record,
    leaseMs: operation.settings.leaseMs,
    ownedUntilMs,
    onLost: () => runtime.emit({ ...about, type: "lease_lost" }),
  });
  const handle = createHandle(record, held.signal, operation.settings, sentKeyOf(submission));
  if (submission.span !== undefined) noteAttempt(submission.span, record);
  const run = job.leasedWork.begin(held, handle, submission.span);
  try {
    const startedAt = runtime.ports.clock.monotonicMs();
    const ran = await withLimit(runtime.ports.clock, operation.settings.attemptLimitMs, () => run.work());
    if (ran.kind === "timed_out") held.abort(new Error("The attempt ran longer than its limit"));
    // A renewal may find the record already ended by this attempt. The outcome of that write decides whether the lease was lost.
    held.conclude();
    const result = await conclude(job, held, await run.conclude(ran));
    const durationMs = runtime.ports.clock.monotonicMs() - startedAt;
    if (result?.kind === "executed") {
      const { execution } = operation;
      runtime.emit({ ...about, type: "executed", execution, attempt: record.fence.attempt, durationMs });
    }
    return result;
  } finally {
    held.stop();
    run.over();
  }
}

async function conclude<Tx>(
  job: LeaseJob<Tx>,
  held: HeldLease,
  { ran, end, ...conclusion }: Conclusion,
): Promise<Result | null> {
  const { runtime, operation, submission } = job;
  const leaseLost = held.lost;
  const about = { ...runtime.about(operation.name, submission.key), recordId: held.record().id };
  if (ran.kind === "threw") runtime.emit({ ...about, type: "attempt_failed", error: ran.error });
  const lostBefore = leaseLost.aborted;
  const ended = conclusion.ended ?? (await endHeld(runtime, held, end));
  const record = held.record();
  const lost = ended.kind === "lost" || (ended.kind === "in_doubt" && leaseLost.aborted);
  if (lost && !lostBefore) runtime.emit({ ...about, type: "lease_lost" });
  // A last phase has written its own end, which is a completion.
  const own = conclusion.ended === null ? end : { event: "complete" as const };
  if (ended.kind === "ended" && submission.span !== undefined) noteEnd(submission.span, own);
  if (ended.kind === "ended" && conclusion.ended === null) reportEnd(runtime, record, end);
  // A last phase has reported its own doubt.
  if (ended.kind === "in_doubt" && conclusion.ended === null) {
    const { recordId: _, ...what } = about;
    runtime.emit({ ...what, type: "commit_in_doubt", resolved: "in_doubt" });
  }
  if (
    ended.kind === "ended" &&
    end.event === "doubt" &&
    (await settleWithEarly(runtime, submission.key, record.id))
  ) {
    return resultFromRecord(job);
  }
  if (ended.kind === "ended") return resultOfOwner(record, ran, end, ended.expiresAt);
  // No other attempt has begun since: the owner's complete answer settles the outcome that was written as unknown.
  if (ended.kind === "lost" && end.event === "complete" && (await settleLate(runtime, record, end))) {
    return resultOfOwner(record, ran, end, null);
  }
  if (ended.kind === "lost" || ran.kind === "threw") {
    // Never return the loser's result, and never report `in_progress` for its own token: that attempt is over.
    const isOwn = (token: string) => token === job.token || held.isOwnToken(token);
    const recorded = await resultFromRecord(job, isOwn);
    if (recorded !== null) return recorded;
  }
  if (ended.kind === "in_doubt" && ran.kind === "threw") throw ran.error;
  return { kind: "commit_in_doubt", retryAfterMs: doubtRetryAfterMs };
}

/**
 * A step that outlives its attempt may meanwhile take a new token, to find out the outcome of its COMMIT. If the write under the
 * old token is refused, the attempt has the new token, or has lost.
 */
async function endHeld<Tx>(runtime: Runtime<Tx>, held: HeldLease, end: AttemptEnd): Promise<Ended> {
  const record = held.record();
  const ended = await endAttempt(runtime, record, end, held.lost);
  const fence = held.latestFence();
  if (ended.kind !== "lost" || sameFence(fence, record.fence)) return ended;
  return endAttempt(runtime, { ...record, fence }, end, held.lost);
}
