/**
 * `lease` execution: the reservation commits first, a heartbeat keeps it, and the end of the attempt is a fenced write.
 * For work that leaves the database.
 */
import { classifyAnswer } from "../engine/classify.ts";
import { decide } from "../engine/decide.ts";
import type { InProgressRecord } from "../engine/record.ts";
import { NotExecuted, StoreError } from "../errors.ts";
import type { Operation } from "../operation.ts";
import { pause } from "../ports.ts";
import type { AttemptEnd, LeaseTerms, NewLife } from "../stores/store.ts";
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
import { endAttempt } from "./end-attempt.ts";
import { type AttemptHandle, createHandle } from "./handle.ts";
import { startHeartbeat, stopsAtMs } from "./heartbeat.ts";
import { type Limited, withLimit } from "./limit.ts";
import type { Runtime } from "./runtime.ts";

/** How often admission starts over: each time somebody else has changed the record. */
const admissionsMax = 20;
const backOffMs = 5;
const doubtRetryAfterMs = 2_000;

interface Job<Tx> {
  readonly runtime: Runtime<Tx>;
  readonly operation: Operation;
  readonly submission: Submission;
  readonly work: Work<Tx, "lease">;
  /** One token per submission, so that an admission whose reply was lost is recognised as its own. */
  readonly token: string;
  /** Counts the key as new, once for each submission, however often admission starts over. */
  readonly countNewKey: () => Promise<Result | null>;
}

interface Admitted {
  readonly record: InProgressRecord;
  /** Monotonic time until which the lease certainly holds: counted from before the admission was sent. */
  readonly ownedUntilMs: number;
}

export async function runLease<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  submission: Submission,
  work: Work<Tx, "lease">,
): Promise<Result> {
  checkSubmission(submission);
  const lookup = await limited(runtime, operation, submission, "lookups");
  const countNewKey = newKeyCounter(runtime, operation, submission);
  const result =
    lookup ??
    (await waiting(runtime, operation, async () => {
      const job: Job<Tx> = {
        runtime,
        operation,
        submission,
        work,
        countNewKey,
        token: runtime.ports.random.token(),
      };
      const admitted = await admit(job);
      return "record" in admitted ? perform(job, admitted) : admitted;
    }));
  report(runtime, operation, submission, result);
  return result;
}

async function admit<Tx>(job: Job<Tx>): Promise<Admitted | Result> {
  const { clock, random } = job.runtime.ports;
  let current = job;
  for (let round = 1; round <= admissionsMax; round++) {
    const admitted = await tryAdmit(current);
    if (admitted !== null) {
      if (!("record" in admitted) || mayStart(job, admitted)) return admitted;
      const confirmed = await confirm(job, admitted.record);
      if (confirmed.kind === "held" && mayStart(job, confirmed)) return confirmed;
      // What was given back may be deleted at any time to come: nothing may start under its token.
      if (confirmed.kind === "given_back") current = { ...job, token: random.token() };
    }
    await pause(clock, backOffMs * round * random.fraction());
  }
  throw new StoreError("rolled_back", {
    message: `Gave up after ${admissionsMax} admissions lost to others`,
  });
}

/** A reply that took as long as the lease says nothing about who owns the record by now. */
function mayStart<Tx>({ runtime, operation }: Job<Tx>, { ownedUntilMs }: Admitted): boolean {
  return runtime.ports.clock.monotonicMs() < stopsAtMs(ownedUntilMs, operation.settings.leaseMs);
}

type Confirmed =
  | (Admitted & { readonly kind: "held" })
  | { readonly kind: "given_back" }
  | { readonly kind: "in_doubt" };

/** Renews an attempt whose handler was not started in time, or frees its key. */
async function confirm<Tx>({ runtime, operation }: Job<Tx>, record: InProgressRecord): Promise<Confirmed> {
  const { store } = runtime;
  const { leaseMs } = operation.settings;
  const sentAtMs = runtime.ports.clock.monotonicMs();
  const renewed = await store.renew(record, record.id, record.fence, leaseMs).catch(() => null);
  if (renewed === null) return { kind: "in_doubt" };
  if (renewed) return { kind: "held", record, ownedUntilMs: sentAtMs + leaseMs };
  // An earlier attempt of the same life may have run: then its key stays with its request.
  const end: AttemptEnd =
    record.fence.attempt === 1 ? { event: "release" } : { event: "retry_later", errorCode: "not-started" };
  await store.end(record, record.id, record.fence, end).catch(() => null);
  return { kind: "given_back" };
}

async function tryAdmit<Tx>(job: Job<Tx>): Promise<Admitted | Result | null> {
  const { runtime, operation, submission, token } = job;
  const { store } = runtime;
  const sentAtMs = runtime.ports.clock.monotonicMs();
  const { record, now } = await store.read(submission.key);
  const terms = termsOf(operation);
  const ownedUntilMs = sentAtMs + terms.leaseMs;
  const verdict = decide(record, admissionRequest(operation, submission, token), now);
  switch (verdict.kind) {
    case "answer":
      return resultOf(runtime, verdict.decision, now);
    case "own":
      return { record: verdict.record, ownedUntilMs: sentAtMs + (verdict.record.leaseEndsAt - now) };
    case "give_up":
      await giveUp(runtime, operation, submission.key, verdict.guard, verdict.because);
      return null;
    case "create": {
      const refused = await job.countNewKey();
      if (refused !== null) return refused;
      const life = newLife(job, now);
      return admittedOrNull(ownedUntilMs, () => store.create(life, verdict.replaces, terms));
    }
    case "take_over":
      return admittedOrNull(ownedUntilMs, () =>
        store.takeOver(submission.key, verdict.guard, submission.fingerprint, token, terms),
      );
    default:
      return verdict satisfies never;
  }
}

/** A reply that was lost is found again by reading: the record then carries this submission's token. */
async function admittedOrNull(
  ownedUntilMs: number,
  write: () => Promise<InProgressRecord | null>,
): Promise<Admitted | null> {
  try {
    const record = await write();
    return record === null ? null : { record, ownedUntilMs };
  } catch (error) {
    if (error instanceof StoreError && error.certainty === "in_doubt") return null;
    throw error;
  }
}

function newLife<Tx>(job: Job<Tx>, now: number): NewLife {
  const { key, fingerprint, principal } = job.submission;
  return {
    tenant: key.tenant,
    scope: key.scope,
    key: key.key,
    id: job.runtime.ports.random.uuid(now),
    operation: job.operation.name,
    fingerprint,
    principal,
    fence: { attempt: 1, token: job.token },
  };
}

function termsOf(operation: Operation): LeaseTerms {
  const { leaseMs, leaseEnd, attemptsMax, retentionMs } = operation.settings;
  return { leaseMs, leaseEnd, attemptsMax, abandonAfterMs: retentionMs };
}

async function perform<Tx>(job: Job<Tx>, admitted: Admitted): Promise<Result> {
  const { runtime, operation, submission } = job;
  const { record } = admitted;
  const about = { ...runtime.about(operation.name, submission.key), recordId: record.id };
  const abort = new AbortController();
  const leaseLost = new AbortController();
  let ending = false;
  const handle = createHandle(record.id, record.fence, abort.signal, operation.settings);
  const heartbeat = startHeartbeat(runtime, {
    key: submission.key,
    id: record.id,
    fence: record.fence,
    leaseMs: operation.settings.leaseMs,
    ownedUntilMs: admitted.ownedUntilMs,
    onLost: () => {
      // A beat may meet the attempt's own last write: what became of that one says whether the lease was lost.
      if (!ending) runtime.emit({ ...about, type: "lease_lost" });
      const reason = new Error("The lease was lost");
      abort.abort(reason);
      leaseLost.abort(reason);
    },
  });
  try {
    const startedAt = runtime.ports.clock.monotonicMs();
    const ran = await withLimit(runtime.ports.clock, operation.settings.attemptLimitMs, () =>
      job.work({ attempt: handle.attempt }),
    );
    if (ran.kind === "timed_out") abort.abort(new Error("The attempt ran longer than its limit"));
    ending = true;
    const result = await conclude(job, record, handle, ran, leaseLost.signal);
    const durationMs = runtime.ports.clock.monotonicMs() - startedAt;
    if (result.kind === "executed") {
      runtime.emit({ ...about, type: "executed", attempt: record.fence.attempt, durationMs });
    }
    return result;
  } finally {
    heartbeat.stop();
  }
}

async function conclude<Tx>(
  job: Job<Tx>,
  record: InProgressRecord,
  handle: AttemptHandle,
  handled: Limited<Answer>,
  leaseLost: AbortSignal,
): Promise<Result> {
  const { runtime, operation, submission } = job;
  const { ran, end } = await concluded(job, record, handle, handled);
  const about = { ...runtime.about(operation.name, submission.key), recordId: record.id };
  if (ran.kind === "threw") runtime.emit({ ...about, type: "attempt_failed", error: ran.error });
  const lostBefore = leaseLost.aborted;
  const ended = await endAttempt(runtime, record, end, leaseLost);
  const lost = ended.kind === "lost" || (ended.kind === "in_doubt" && leaseLost.aborted);
  if (lost && !lostBefore) runtime.emit({ ...about, type: "lease_lost" });
  if (ended.kind === "ended" && end.event === "release") runtime.emit({ ...about, type: "released" });
  if (ended.kind === "in_doubt") {
    const { recordId: _, ...what } = about;
    runtime.emit({ ...what, type: "commit_in_doubt", resolved: "in_doubt" });
  }
  if (ended.kind === "ended") return resultOfOwner(record, ran, end, ended.expiresAt);
  if (ended.kind === "lost" || ran.kind === "threw") {
    // The fence was lost or is in doubt: never the loser's own result.
    const said = await whatTheRecordSays(job);
    if (said !== null) return said;
  }
  if (ended.kind === "in_doubt" && ran.kind === "threw") throw ran.error;
  return { kind: "commit_in_doubt", retryAfterMs: doubtRetryAfterMs };
}

/** An answer that cannot be kept counts as a throw: something has happened, and nobody will be able to replay it. */
async function concluded<Tx>(
  job: Job<Tx>,
  record: InProgressRecord,
  handle: AttemptHandle,
  ran: Limited<Answer>,
): Promise<{ readonly ran: Limited<Answer>; readonly end: AttemptEnd }> {
  try {
    return { ran, end: await endOf(job, record, handle, ran) };
  } catch (error) {
    return { ran: { kind: "threw", error }, end: doubt("answer-not-encoded") };
  }
}

async function endOf<Tx>(
  job: Job<Tx>,
  record: InProgressRecord,
  handle: AttemptHandle,
  ran: Limited<Answer>,
): Promise<AttemptEnd> {
  const { runtime, operation } = job;
  if (ran.kind === "timed_out") return doubt("attempt-limit");
  if (ran.kind === "threw") return endOfThrow(operation, handle, ran.error);
  const disposition = classifyAnswer({
    execution: "lease",
    status: ran.value.status,
    declined: handle.declined(),
    serverErrors: operation.settings.serverErrors,
  });
  if (disposition === "release") return { event: "release" };
  if (disposition === "doubt") return doubt(`status-${ran.value.status}`);
  const context = codecContext(record, record.id, record.fingerprint.digest);
  const encoded = encodeAnswer(ran.value, operation.settings.answerLimitBytes);
  return {
    event: "complete",
    answer: await runtime.codec.encode(encoded, context),
    retention: handle.retention(),
    errorCode: null,
  };
}

function endOfThrow(operation: Operation, handle: AttemptHandle, error: unknown): AttemptEnd {
  const proven = error instanceof NotExecuted || provesNotExecuted(operation, error);
  return proven || handle.declined() ? { event: "release" } : doubt("handler-threw");
}

/** A judgement that throws, or a promise of one, proves nothing. */
function provesNotExecuted(operation: Operation, error: unknown): boolean {
  try {
    return operation.settings.isNotExecuted(error) === true;
  } catch {
    return false;
  }
}

function doubt(errorCode: string): AttemptEnd {
  return { event: "doubt", errorCode, reconcileAfterMs: null };
}

/** The end of the attempt is confirmed: the owner's own result is the truth. */
function resultOfOwner(
  record: InProgressRecord,
  ran: Limited<Answer>,
  end: AttemptEnd,
  expiresAt: number | null,
): Result {
  switch (ran.kind) {
    case "returned":
      return {
        kind: "executed",
        recordId: record.id,
        answer: ran.value,
        stored: end.event === "complete",
        expiresAt,
      };
    case "threw":
      throw ran.error;
    case "timed_out":
      return { kind: "unknown", recordId: record.id, retryAfterMs: null };
    default:
      return ran satisfies never;
  }
}
