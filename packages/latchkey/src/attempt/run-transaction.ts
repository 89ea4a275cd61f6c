/**
 * `transaction` execution: admission, the handler's writes and the stored answer are one transaction of the user's
 * database. The store and its bridge move bytes; every decision is here or in `engine`.
 */
import { classifyAnswer } from "../engine/classify.ts";
import { type AdmissionRequest, type Decision, decide, type GiveUpReason } from "../engine/decide.ts";
import type { Guard } from "../engine/record.ts";
import { isLatchkeyError, LatchkeyError, StoreError } from "../errors.ts";
import type { Operation } from "../operation.ts";
import { pause } from "../ports.ts";
import type {
  NewLife,
  OpenTransaction,
  TransactionOutcome,
  TransactionSupport,
  TransactionWork,
} from "../stores/store.ts";
import {
  admissionRequest,
  checkSubmission,
  codecContext,
  giveUp,
  limited,
  newKeyCounter,
  report,
  resultOf,
  waiting,
  whatTheRecordSays,
} from "./admission.ts";
import { type Answer, encodeAnswer } from "./answer.ts";
import type { Result, Submission, Work } from "./attempt.ts";
import { type AttemptHandle, createHandle } from "./handle.ts";
import { withLimit } from "./limit.ts";
import { loseTransaction, type Start } from "./lose-transaction.ts";
import type { Runtime } from "./runtime.ts";
import { isSerializationFailure } from "./sql-state.ts";

/** How often one submission starts over: each time some other transaction has made progress. */
const roundsMax = 8;
const backOffMs = 5;
/** How long a COMMIT in doubt is waited for before the caller is told so. */
const resolveLimitMs = 5_000;
const doubtRetryAfterMs = 2_000;

/** What the transaction's work hands back, whatever then becomes of the transaction. */
type Ran =
  | { readonly kind: "decided"; readonly decision: Decision; readonly now: number }
  | { readonly kind: "dead_lease"; readonly guard: Guard; readonly because: GiveUpReason }
  | { readonly kind: "limited"; readonly result: Result }
  | { readonly kind: "threw"; readonly error: unknown }
  | (Start & { readonly kind: "answered"; readonly answer: Answer });

/** Noted as soon as a handler is started, for what the transaction itself cannot hand back. */
interface Started {
  start: Start | null;
}

interface Job<Tx> {
  readonly runtime: Runtime<Tx>;
  readonly operation: Operation;
  readonly submission: Submission;
  readonly support: TransactionSupport<Tx>;
  readonly work: Work<Tx, "transaction">;
  /** Counts the key as new, once for each submission, however often its transaction starts over. */
  readonly countNewKey: () => Promise<Result | null>;
}

/** `null`: what was decided on has changed; start over on what is there now. */
type Round = Result | null;

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
  const job: Job<Tx> = { runtime, operation, submission, support, work, countNewKey };
  const result = lookup ?? (await waiting(runtime, operation, () => untilDecided(job)));
  report(runtime, operation, submission, result);
  return result;
}

async function untilDecided<Tx>(job: Job<Tx>): Promise<Result> {
  const { clock, random } = job.runtime.ports;
  for (let round = 1; round <= roundsMax; round++) {
    const result = await runRound(job);
    if (result !== null) return result;
    await pause(clock, backOffMs * round * random.fraction());
  }
  throw new StoreError("rolled_back", { message: `Gave up after ${roundsMax} transactions lost to others` });
}

async function runRound<Tx>(job: Job<Tx>): Promise<Round> {
  const { runtime, operation, submission } = job;
  const { settings } = operation;
  const startedAt = runtime.ports.clock.monotonicMs();
  const request = admissionRequest(operation, submission, runtime.ports.random.token());
  const started: Started = { start: null };
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
      // A record to be replaced is of another life, perhaps of another principal: its id is not told.
      const runningId = verdict.kind === "create" ? null : verdict.guard.id;
      if (!open.exclusive) return rollback(runningElsewhere(runningId, now));
      const refused = verdict.kind === "create" ? await job.countNewKey() : null;
      if (refused !== null) return rollback({ kind: "limited", result: refused });
      const replaces = verdict.kind === "create" ? verdict.replaces : verdict.guard;
      const life = lifeOf(job, verdict.kind === "create" ? null : replaces, request.token, now);
      started.start = { life, replaces };
      return execute(job, open, started.start);
    }
    default:
      return verdict satisfies never;
  }
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
  const handle = createHandle(life.id, life.fence, abort.signal, operation.settings);
  const ran = await withLimit(runtime.ports.clock, operation.settings.transactionLimitMs, () =>
    job.work({ tx: open.tx, attempt: handle.attempt }),
  );
  open.revoke();
  switch (ran.kind) {
    case "timed_out": {
      const error = new LatchkeyError("attempt-limit");
      abort.abort(error);
      return { end: "abandon", value: { kind: "threw", error } };
    }
    case "threw":
      return rollback({ kind: "threw", error: ran.error });
    case "returned":
      return concludes(job, open, handle, { ...start, kind: "answered", answer: ran.value });
    default:
      return ran satisfies never;
  }
}

async function concludes<Tx>(
  job: Job<Tx>,
  open: OpenTransaction<Tx>,
  handle: AttemptHandle,
  ran: Extract<Ran, { kind: "answered" }>,
): Promise<TransactionWork<Ran>> {
  const { runtime, operation } = job;
  const { serverErrors, answerLimitBytes } = operation.settings;
  const { answer, life, replaces } = ran;
  const disposition = classifyAnswer({
    execution: "transaction",
    status: answer.status,
    declined: handle.declined(),
    serverErrors,
  });
  if (disposition === "release" || disposition === "doubt") return rollback(ran);
  if (disposition === "keep" && forgotTx(operation, open, answer)) {
    if (runtime.strict) return rollback({ kind: "threw", error: new LatchkeyError("tx-unused") });
    runtime.emit({ type: "tx_unused", ...runtime.about(operation.name, life) });
  }
  const context = codecContext(life, life.id, life.fingerprint.digest, "answer");
  return {
    end: "commit",
    value: ran,
    life,
    replaces,
    answer: await runtime.codec.encode(encodeAnswer(answer, answerLimitBytes), context),
    retention: handle.retention(),
    undoWrites: disposition === "keep_answer_only",
  };
}

function forgotTx<Tx>(operation: Operation, open: OpenTransaction<Tx>, answer: Answer): boolean {
  return operation.settings.writes === "required" && answer.status < 300 && !open.used();
}

function settle<Tx>(
  job: Job<Tx>,
  outcome: TransactionOutcome<Ran>,
  { start }: Started,
): Round | Promise<Round> {
  const { value } = outcome;
  switch (outcome.kind) {
    case "committed":
      return executed(expectAnswered(value), true, outcome.expiresAt);
    case "rolled_back":
      return settleRolledBack(job, value, start);
    case "lost":
      return rerun(job, "lost");
    case "refused":
      return settleRefused(job, outcome, start);
    case "in_doubt":
      return settleInDoubt(job, expectAnswered(value));
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

/** The answer is sent, its writes are gone and its key is free. One that tells of an error may be a shadow as well. */
async function released<Tx>(job: Job<Tx>, ran: Extract<Ran, { kind: "answered" }>): Promise<Result> {
  const { runtime, submission, operation } = job;
  const said = ran.answer.status >= 500 ? await whatTheRecordSays(job) : null;
  if (said !== null) return said;
  const about = runtime.about(operation.name, submission.key);
  runtime.emit({ ...about, type: "released", recordId: ran.life.id });
  return executed(ran, false, null);
}

async function settleInDoubt<Tx>(job: Job<Tx>, ran: Extract<Ran, { kind: "answered" }>): Promise<Round> {
  const { runtime, submission, support, operation } = job;
  const resolved = await support
    .resolve(submission.key, ran.life.id, ran.life.fence, resolveLimitMs)
    // An error would say that nothing was executed.
    .catch(() => "in_doubt" as const);
  runtime.emit({
    type: "commit_in_doubt",
    resolved,
    ...runtime.about(operation.name, submission.key),
  });
  switch (resolved) {
    case "committed":
      return executed(ran, true, null);
    case "rolled_back":
      return rerun(job, "commit_rolled_back");
    case "in_doubt":
      return { kind: "commit_in_doubt", retryAfterMs: doubtRetryAfterMs };
    default:
      return resolved satisfies never;
  }
}

async function settleChanged<Tx>(job: Job<Tx>, start: Start): Promise<Round> {
  const { runtime, submission, operation } = job;
  const lost = await loseTransaction(runtime, start);
  runtime.emit({
    type: "transaction_changed",
    ...runtime.about(operation.name, submission.key),
  });
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
 * The handler failed, and its error may be the shadow of another attempt's success (a unique violation, for one): what
 * the record says comes first.
 *
 * @throws the handler's error when the record says nothing.
 */
async function afterError<Tx>(job: Job<Tx>, error: unknown, start: Start | null): Promise<Result> {
  const { runtime, submission, operation } = job;
  if (start !== null) {
    const about = runtime.about(operation.name, submission.key);
    runtime.emit({ ...about, type: "attempt_failed", recordId: start.life.id, error });
  }
  const said = await whatTheRecordSays(job);
  if (said !== null) return said;
  throw error;
}

function rerun<Tx>(job: Job<Tx>, because: "serialization" | "lost" | "commit_rolled_back"): null {
  const { runtime, submission, operation } = job;
  runtime.emit({
    type: "transaction_rerun",
    because,
    ...runtime.about(operation.name, submission.key),
  });
  return null;
}

function executed(
  ran: Extract<Ran, { kind: "answered" }>,
  stored: boolean,
  expiresAt: number | null,
): Result {
  return { kind: "executed", recordId: ran.life.id, answer: ran.answer, stored, expiresAt };
}

function expectAnswered(ran: Ran): Extract<Ran, { kind: "answered" }> {
  if (ran.kind !== "answered")
    throw new TypeError(`A transaction that ${ran.kind} cannot have been committed`);
  return ran;
}

function rollback(value: Ran): TransactionWork<Ran> {
  return { end: "rollback", value };
}
