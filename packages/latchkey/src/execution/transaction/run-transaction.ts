/**
 * `transaction` execution: admission, the handler's writes and the stored answer are one transaction of the user's
 * database. The store and its bridge move bytes; every decision is here or in `engine`.
 */
import { classifyAnswer, type Disposition } from "../../engine/classify.ts";
import { type AdmissionRequest, decide } from "../../engine/decide.ts";
import { type Guard, sameFence } from "../../engine/record.ts";
import { isLatchkeyError, LatchkeyError, StoreError } from "../../errors.ts";
import { type Answer, encodeAnswer } from "../../operations/answer.ts";
import {
  clientKeyOf,
  type Enqueue,
  type Result,
  type Submission,
  type Work,
} from "../../operations/attempt.ts";
import type { Operation } from "../../operations/operation.ts";
import { pause } from "../../ports.ts";
import { isSerializationFailure } from "../../sql/sql-state.ts";
import type { NewLife } from "../../stores/life.ts";
import type { OpenTransaction, TransactionOutcome, TransactionWork } from "../../stores/transactions.ts";
import { conflictPauses, retryPauseMs } from "../../time/retry-pause.ts";
import { withLimit } from "../../time/time-limit.ts";
import {
  admissionRequest,
  checkSubmission,
  codecContext,
  giveUp,
  limited,
  newKeyCounter,
  report,
  resultOf,
  whatTheRecordSays,
} from "../admission.ts";
import { type AttemptHandle, createHandle } from "../handle.ts";
import { answerOfSeen } from "../replay-lookup.ts";
import type { Runtime } from "../runtime.ts";
import { waiting } from "../shared-wait.ts";
import { summarized } from "../summarize.ts";
import { EffectList, noEffects } from "./enqueue.ts";
import type { Start } from "./record-lost-transaction.ts";
import {
  type AnsweredRan,
  afterError,
  committed,
  expectAnswered,
  type Job,
  type Ran,
  type Round,
  released,
  rerun,
  settleChanged,
  settleInDoubt,
  settleRetried,
} from "./transaction-ends.ts";

/** How often one submission starts over: each time some other transaction has made progress. */
const roundsMax = 8;

/** Noted as soon as a handler is started, for what the transaction itself cannot hand back. */
interface Started {
  start: Start | null;
  /** On the process's monotonic clock. */
  readonly atMs: number;
}

export async function runTransaction<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  submission: Submission,
  work: Work<Tx, "transaction">,
): Promise<Result> {
  checkSubmission(submission);
  const support = runtime.store.transactions;
  if (support === null) throw new TypeError(`Store ${runtime.store.name} has no transactions`);
  const lookup = runtime.limits.lookups && (await limited(runtime, operation, submission, "lookups"));
  const countNewKey = newKeyCounter(runtime, operation, submission);
  const job: Job<Tx> = {
    runtime,
    operation,
    submission,
    support,
    work,
    countNewKey,
    stepless: { guard: null },
    started: () => {},
  };
  const seen = lookup ?? (await answerOfSeen(runtime, operation, submission));
  const result =
    seen ?? (await waiting(runtime, operation, submission, (started) => untilDecided({ ...job, started })));
  if (seen === null && isFinished(result)) runtime.finishedKeys.note(submission.key);
  report(runtime, operation, submission, result);
  return result;
}

function isFinished(result: Result): boolean {
  return result.kind === "replay" || (result.kind === "executed" && result.stored);
}

/** No round begins after the time that the operation gives its handler: by then its caller has waited long enough. */
async function untilDecided<Tx>(job: Job<Tx>): Promise<Result> {
  const { clock, random } = job.runtime.ports;
  const deadline = clock.monotonicMs() + job.operation.settings.transactionLimitMs;
  for (let round = 1; ; round++) {
    const result = await runRound(job);
    if (result !== null) return result;
    const pauseMs = retryPauseMs(round, random, conflictPauses);
    if (round === roundsMax || clock.monotonicMs() + pauseMs >= deadline) {
      throw new StoreError("rolled_back", { message: `Gave up after ${round} transactions lost to others` });
    }
    await pause(clock, pauseMs);
  }
}

async function runRound<Tx>(job: Job<Tx>): Promise<Round> {
  const { runtime, operation, submission } = job;
  const { settings } = operation;
  const startedAt = runtime.ports.clock.monotonicMs();
  const request = admissionRequest(operation, submission, runtime.ports.random.token());
  const started: Started = { start: null, atMs: startedAt };
  let outcome: TransactionOutcome<Ran>;
  try {
    outcome = await job.support.run<Ran>(
      {
        key: submission.key,
        isolation: settings.isolation,
        idleLimitMs: settings.transactionLimitMs,
        savepoint: settings.serverErrors === "store",
      },
      (open) => inTransaction(job, open, request, started),
    );
  } catch (error) {
    // A bridge that was to roll back, and found that the handler had left nothing to roll back.
    const changed = isLatchkeyError(error) && error.code === "transaction-changed";
    if (started.start === null || !changed) throw error;
    return settleChanged(job, started.start);
  }
  const result = await settle(job, outcome, started);
  if (result?.kind === "executed" && outcome.value.kind === "answered") {
    runtime.emit({
      type: "executed",
      ...runtime.about(operation.name, submission.key),
      recordId: result.recordId,
      execution: "transaction",
      attempt: outcome.value.life.fence.attempt,
      durationMs: runtime.ports.clock.monotonicMs() - startedAt,
    });
  }
  return result;
}

async function inTransaction<Tx>(
  job: Job<Tx>,
  open: OpenTransaction<Tx>,
  request: AdmissionRequest,
  started: Started,
): Promise<TransactionWork<Ran>> {
  const { record, now } = open.reading;
  const verdict = decide(record, request, now);
  switch (verdict.kind) {
    case "answer":
      return rollback({ kind: "decided", decision: verdict.decision, now });
    case "give_up":
      return rollback({ kind: "dead_lease", guard: verdict.guard, because: verdict.because });
    case "own":
      return rollback(runningElsewhere(verdict.record.id, now));
    case "create":
    case "take_over": {
      // A record to be replaced is of another life, perhaps of another principal: its id is not disclosed.
      const runningId = verdict.kind === "create" ? null : verdict.guard.id;
      if (!open.exclusive) return rollback(runningElsewhere(runningId, now));
      if (open.refusal) throw open.refusal;
      const refused = verdict.kind === "create" ? await job.countNewKey() : null;
      if (refused !== null) return rollback({ kind: "limited", result: refused });
      const replaces = verdict.kind === "create" ? verdict.replaces : verdict.guard;
      const begun = lifeOf(job, verdict.kind === "create" ? null : replaces, request.token, now);
      const { runtime, operation, submission } = job;
      const life =
        verdict.kind === "take_over" || submission.summarize === undefined
          ? begun
          : { ...begun, ...(await summarized(runtime, operation, submission, begun.id)) };
      if (verdict.kind === "take_over" && !isSame(job.stepless.guard, verdict.guard)) {
        return rollback({ kind: "retried", start: { life, replaces }, guard: verdict.guard });
      }
      started.start = { life, replaces };
      return execute(job, open, started.start);
    }
    default:
      return verdict satisfies never;
  }
}

function isSame(left: Guard | null, right: Guard): boolean {
  return left !== null && left.id === right.id && sameFence(left.fence, right.fence);
}

function runningElsewhere(recordId: string | null, now: number): Ran {
  const decision = { kind: "in_progress", recordId, createdAt: null, leaseEndsAt: null } as const;
  return { kind: "decided", decision, now };
}

/** A new life, or the next attempt of the `retryable` one. */
function lifeOf<Tx>(job: Job<Tx>, retried: Guard | null, token: string, now: number): NewLife {
  const { key, fingerprint, principal } = job.submission;
  return {
    tenant: key.tenant,
    scope: key.scope,
    key: key.key,
    id: retried?.id ?? job.runtime.ports.random.uuid(now),
    operation: job.operation.name,
    fingerprint,
    principal,
    fence: { attempt: (retried?.fence.attempt ?? 0) + 1, token },
  };
}

async function execute<Tx>(
  job: Job<Tx>,
  open: OpenTransaction<Tx>,
  start: Start,
): Promise<TransactionWork<Ran>> {
  const { runtime, operation } = job;
  const { life } = start;
  const abort = new AbortController();
  const effects = new EffectList(runtime, { recordId: life.id, step: "", now: open.reading.now });
  const enqueue: Enqueue = (effect, input, options) => effects.enqueue(effect, input, options);
  const handle = createHandle(life, abort.signal, operation.settings, clientKeyOf(job.submission), enqueue);
  job.started();
  const ran = await withLimit(runtime.ports.clock, operation.settings.transactionLimitMs, () =>
    answered(job, open, handle),
  );
  open.revoke();
  effects.close();
  switch (ran.kind) {
    case "timed_out": {
      const error = new LatchkeyError("attempt-limit");
      abort.abort(error);
      return { end: "abandon", value: { kind: "threw", error } };
    }
    case "threw":
      return rollback({ kind: "threw", error: ran.error });
    case "returned":
      return concludes(
        job,
        open,
        handle,
        {
          ...start,
          kind: "answered",
          answer: ran.value,
          enqueued: false,
          retention: handle.retention(),
        },
        effects,
      );
    default:
      return ran satisfies never;
  }
}

function answered<Tx>(job: Job<Tx>, open: OpenTransaction<Tx>, handle: AttemptHandle): Promise<Answer> {
  const { tx, flush } = open;
  const answering = job.work({ tx, attempt: handle.attempt });
  return flush === undefined ? answering : flushed(job, handle, answering, flush);
}

async function flushed<Tx>(
  { operation }: Job<Tx>,
  handle: AttemptHandle,
  answering: Promise<Answer>,
  flush: () => Promise<void>,
): Promise<Answer> {
  const answer = await answering;
  if (dispositionOf(operation, handle, answer) === "keep") await flush();
  return answer;
}

function dispositionOf({ settings }: Operation, handle: AttemptHandle, { status }: Answer): Disposition {
  const { serverErrors } = settings;
  return classifyAnswer({ execution: "transaction", status, declined: handle.declined(), serverErrors });
}

async function concludes<Tx>(
  job: Job<Tx>,
  open: OpenTransaction<Tx>,
  handle: AttemptHandle,
  ran: AnsweredRan,
  effects: EffectList<Tx>,
): Promise<TransactionWork<Ran>> {
  const { runtime, operation } = job;
  const { answerLimitBytes } = operation.settings;
  const { answer, life, replaces } = ran;
  const disposition = dispositionOf(operation, handle, answer);
  if (disposition === "release" || disposition === "doubt") return rollback(ran);
  const enqueued = !effects.isEmpty && disposition === "keep";
  if (disposition === "keep" && !enqueued && forgotTx(operation, open, answer)) {
    if (runtime.strict) return rollback({ kind: "threw", error: new LatchkeyError("tx-unused") });
    runtime.emit({ type: "tx_unused", ...runtime.about(operation.name, life) });
  }
  const context = codecContext(life, life.id, life.fingerprint.digest, "answer");
  return {
    end: "commit",
    value: enqueued ? { ...ran, enqueued } : ran,
    life,
    replaces,
    answer: await runtime.codec.encode(encodeAnswer(answer, answerLimitBytes), context),
    retention: handle.retention(),
    undoWrites: disposition === "keep_answer_only",
    effects: enqueued ? await effects.encoded(life) : noEffects,
  };
}

function forgotTx<Tx>(operation: Operation, open: OpenTransaction<Tx>, answer: Answer): boolean {
  return operation.settings.writes === "required" && answer.status < 300 && !open.used();
}

function settle<Tx>(
  job: Job<Tx>,
  outcome: TransactionOutcome<Ran>,
  { start, atMs }: Started,
): Round | Promise<Round> {
  const { value } = outcome;
  switch (outcome.kind) {
    case "committed":
      return committed(job, expectAnswered(value), outcome.expiresAt);
    case "rolled_back":
      return settleRolledBack(job, value, start);
    case "lost":
      return rerun(job, "lost");
    case "refused":
      return settleRefused(job, outcome, start);
    case "in_doubt":
      return settleInDoubt(job, expectAnswered(value), atMs);
    case "changed":
      return settleChanged(job, start ?? expectAnswered(value));
    default:
      return outcome satisfies never;
  }
}

async function settleRolledBack<Tx>(job: Job<Tx>, ran: Ran, start: Start | null): Promise<Round> {
  switch (ran.kind) {
    case "decided":
      return resultOf(job.runtime, ran.decision, ran.now);
    case "dead_lease":
      await giveUp(job.runtime, job.operation, job.submission.key, ran.guard, ran.because);
      return null;
    case "limited":
      return ran.result;
    case "retried":
      return settleRetried(job, ran);
    case "answered":
      return released(job, ran);
    case "threw":
      return isSerializationFailure(ran.error)
        ? rerun(job, "serialization")
        : afterError(job, ran.error, start);
    default:
      return ran satisfies never;
  }
}

async function settleRefused<Tx>(
  job: Job<Tx>,
  { value, because, error }: Extract<TransactionOutcome<Ran>, { kind: "refused" }>,
  start: Start | null,
): Promise<Round> {
  if (because === "serialization") return rerun(job, "serialization");
  if (because === "other") return afterError(job, error, start);
  const answered = expectAnswered(value);
  // Nothing can be stored in an aborted transaction. A refusal is still true without its record; a success is not.
  const { status } = answered.answer;
  if (status < 400 || status >= 500) {
    return afterError(job, new LatchkeyError("transaction-aborted", { cause: error }), start);
  }
  return (await whatTheRecordSays(job)) ?? released(job, answered);
}

function rollback(value: Ran): TransactionWork<Ran> {
  return { end: "rollback", value };
}
