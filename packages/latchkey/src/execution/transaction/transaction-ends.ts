/** How a transaction with a handler ended, and the result for its caller. */
import { LatchkeyError } from "../../errors.ts";
import type { Result } from "../../operations/attempt.ts";
import { isSerializationFailure } from "../../sql/sql-state.ts";
import type { TransactionOutcome } from "../../stores/transactions.ts";
import type { LatchkeyEvent } from "../../telemetry/events.ts";
import { giveUp, resultFromRecord, resultOf } from "../admission.ts";
import { noteEnd } from "../attempt-span.ts";
import type { AdmittedLife, AnsweredRan, Job, Ran, ResolvedCommit, Round, RoundState } from "./job.ts";
import { type Lost, recordLostTransaction } from "./record-lost-transaction.ts";

/** How long to wait for a COMMIT in doubt to be decided before the caller is answered that it is in doubt. */
const resolveLimitMs = 5_000;
const doubtRetryAfterMs = 2_000;

/** Turns a transaction's outcome into its caller's result, and reports it if the handler ran. */
export async function resultAfter<Tx>(
  job: Job<Tx>,
  outcome: TransactionOutcome<Ran>,
  roundState: RoundState,
): Promise<Round> {
  const result = await roundAfter(job, outcome, roundState);
  if (result?.kind === "executed" && outcome.value.kind === "answered") {
    const { runtime, operation, submission } = job;
    runtime.emit({
      type: "executed",
      ...runtime.about(operation.name, submission.key),
      recordId: result.recordId,
      execution: "transaction",
      attempt: outcome.value.life.fence.attempt,
      durationMs: runtime.ports.clock.monotonicMs() - roundState.startedAtMs,
    });
  }
  return result;
}

function roundAfter<Tx>(
  job: Job<Tx>,
  outcome: TransactionOutcome<Ran>,
  roundState: RoundState,
): Round | Promise<Round> {
  const { value } = outcome;
  const { admitted } = roundState;
  switch (outcome.kind) {
    case "committed":
      return committed(job, expectAnswered(value), outcome.expiresAt);
    case "rolled_back":
      return afterRollback(job, value, admitted);
    case "lost":
      return rerun(job, "lost");
    case "refused":
      return afterRefusal(job, outcome, admitted);
    case "in_doubt":
      return afterCommitInDoubt(job, expectAnswered(value), roundState);
    case "changed":
      return afterChange(job, admitted ?? expectAnswered(value));
    default:
      return outcome satisfies never;
  }
}

async function afterRollback<Tx>(job: Job<Tx>, ran: Ran, admitted: AdmittedLife | null): Promise<Round> {
  switch (ran.kind) {
    case "decided":
      return resultOf(job.runtime, ran.decision, ran.now);
    case "dead_lease":
      await giveUp(job.runtime, job.operation, job.submission.key, ran.guard, ran.because);
      return null;
    case "limited":
      return ran.result;
    case "again":
      return rerun(job, "admission");
    case "retried":
      return afterRetried(job, ran);
    case "answered":
      return released(job, ran);
    case "threw":
      return isSerializationFailure(ran.error)
        ? rerun(job, "serialization")
        : afterError(job, ran.error, admitted);
    default:
      return ran satisfies never;
  }
}

async function afterRefusal<Tx>(
  job: Job<Tx>,
  { value, because, error }: Extract<TransactionOutcome<Ran>, { kind: "refused" }>,
  admitted: AdmittedLife | null,
): Promise<Round> {
  if (because === "serialization") return rerun(job, "serialization");
  if (because === "other") return afterError(job, error, admitted);
  const answered = expectAnswered(value);
  // Nothing can be stored in an aborted transaction. A refusal is still true without its record; a success is not.
  const { status } = answered.answer;
  if (status < 400 || status >= 500) {
    return afterError(job, new LatchkeyError("transaction-aborted", { cause: error }), admitted);
  }
  return (await resultFromRecord(job)) ?? released(job, answered);
}

/** The answer is sent, its writes are gone and its key is free. A 5xx may also be caused by another attempt's success. */
async function released<Tx>(job: Job<Tx>, ran: AnsweredRan): Promise<Result> {
  const { runtime, submission, operation } = job;
  const recorded = ran.answer.status >= 500 ? await resultFromRecord(job) : null;
  if (recorded !== null) return recorded;
  const about = runtime.about(operation.name, submission.key);
  runtime.emit({ ...about, type: "released", recordId: ran.life.id });
  return executed(ran, false, null);
}

/** @param startedAtMs when its transaction began, on the process's monotonic clock */
export async function resolveCommit<Tx>(
  { runtime, submission, support, operation }: Job<Tx>,
  ran: AnsweredRan,
  startedAtMs: number,
): Promise<ResolvedCommit> {
  const read = await support
    .resolve(submission.key, ran.life.id, ran.life.fence, resolveLimitMs)
    // An error would mean that nothing was executed.
    .catch(() => "in_doubt" as const);
  // A missing record proves nothing if it may have been forgotten or replaced since.
  const { retentionMs, forgetAfterMs } = ran.retention;
  const thereForMs = operation.settings.reuse === "execute" ? retentionMs : forgetAfterMs;
  const mayBeGone = runtime.ports.clock.monotonicMs() - startedAtMs >= thereForMs;
  return read === "rolled_back" && mayBeGone ? "in_doubt" : read;
}

async function afterCommitInDoubt<Tx>(
  job: Job<Tx>,
  ran: AnsweredRan,
  roundState: RoundState,
): Promise<Round> {
  const { runtime, submission, operation } = job;
  const resolved = await (roundState.resolved ?? resolveCommit(job, ran, roundState.startedAtMs));
  runtime.emit({
    type: "commit_in_doubt",
    resolved,
    ...runtime.about(operation.name, submission.key),
  });
  switch (resolved) {
    case "committed":
      return committed(job, ran, null);
    case "rolled_back":
      return rerun(job, "commit_rolled_back");
    case "in_doubt":
      return { kind: "commit_in_doubt", retryAfterMs: doubtRetryAfterMs };
    default:
      return resolved satisfies never;
  }
}

/** Steps date from when the operation ran under a lease: a transaction would repeat finished ones. */
async function afterRetried<Tx>(
  { runtime, submission, stepless }: Job<Tx>,
  { admittedLife, guard }: Extract<Ran, { readonly kind: "retried" }>,
): Promise<Round> {
  const journal = await runtime.store.journal.read(submission.key, guard.id);
  if (journal === null) return null;
  if (journal.steps.length > 0)
    return roundOf(await recordLostTransaction(runtime, admittedLife, "steps-changed"));
  stepless.guard = guard;
  return null;
}

export async function afterChange<Tx>(job: Job<Tx>, admitted: AdmittedLife): Promise<Round> {
  const { runtime, submission, operation } = job;
  const lost = await recordLostTransaction(runtime, admitted, "transaction-changed");
  runtime.emit({
    type: "transaction_changed",
    ...runtime.about(operation.name, submission.key),
  });
  return roundOf(lost);
}

function roundOf(lost: Lost): Round {
  switch (lost.kind) {
    case "unknown":
      return { ...lost, retryAfterMs: null };
    case "met":
      return null;
    case "in_doubt":
      return { kind: "commit_in_doubt", retryAfterMs: doubtRetryAfterMs };
    default:
      return lost satisfies never;
  }
}

/**
 * The handler failed, perhaps because of another attempt's success (a unique violation, for example): the record's state
 * takes precedence.
 *
 * @throws the handler's error when the record decides nothing.
 */
async function afterError<Tx>(job: Job<Tx>, error: unknown, admitted: AdmittedLife | null): Promise<Result> {
  const { runtime, submission, operation } = job;
  if (admitted !== null) {
    const about = runtime.about(operation.name, submission.key);
    runtime.emit({ ...about, type: "attempt_failed", recordId: admitted.life.id, error });
  }
  const recorded = await resultFromRecord(job);
  if (recorded !== null) return recorded;
  throw error;
}

/** @throws {StoreError} `not_sent` if the transaction was shared and its members may not run again. */
export function rerun<Tx>(
  job: Job<Tx>,
  because: Extract<LatchkeyEvent, { readonly type: "transaction_rerun" }>["because"],
): null {
  const { runtime, submission, operation, batches } = job;
  batches?.requireOpen();
  runtime.emit({
    type: "transaction_rerun",
    because,
    ...runtime.about(operation.name, submission.key),
  });
  return null;
}

function committed<Tx>({ runtime, submission }: Job<Tx>, ran: AnsweredRan, expiresAt: number | null): Result {
  if (submission.span !== undefined) noteEnd(submission.span, { event: "complete" });
  if (ran.enqueued) runtime.hints.send("effects");
  return executed(ran, true, expiresAt);
}

function executed(ran: AnsweredRan, stored: boolean, expiresAt: number | null): Result {
  return { kind: "executed", recordId: ran.life.id, answer: ran.answer, stored, expiresAt };
}

function expectAnswered(ran: Ran): AnsweredRan {
  if (ran.kind !== "answered")
    throw new TypeError(`A transaction whose work ended as "${ran.kind}" cannot have been committed`);
  return ran;
}
