/**
 * `lease` execution: the reservation commits first, a heartbeat keeps it, and the end of the attempt is a fenced write.
 * For work that leaves the database.
 */
import { decide } from "../engine/decide.ts";
import { type InProgressRecord, type LatchkeyRecord, sameFence } from "../engine/record.ts";
import { StoreError } from "../errors.ts";
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
import type { Result, Submission, Work } from "./attempt.ts";
import { bareCourse } from "./bare-course.ts";
import type { Concluded, Conclusion, Course } from "./course.ts";
import { type Ended, endAttempt } from "./end-attempt.ts";
import { createHandle } from "./handle.ts";
import { stopsAtMs } from "./heartbeat.ts";
import { type HeldLease, holdLease } from "./held-lease.ts";
import { answerOfCopy } from "./known-answer.ts";
import { settleOwnAnswer } from "./late-owner.ts";
import { withLimit } from "./limit.ts";
import type { Runtime } from "./runtime.ts";

/** How often admission starts over: each time somebody else has changed the record. */
const admissionsMax = 20;
const backOffMs = 5;
const doubtRetryAfterMs = 2_000;

interface Job<Tx> {
  readonly runtime: Runtime<Tx>;
  readonly operation: Operation;
  readonly submission: Submission;
  readonly course: Course;
  /** A worker goes on with what is there, and begins no life. */
  readonly by: "request" | "worker";
  /** One token per submission, so that an admission whose reply was lost is recognised as its own. */
  readonly token: string;
  /** Counts the key as new, once for each submission, however often admission starts over. */
  readonly countNewKey: () => Promise<Result | null>;
}

interface Admitted {
  readonly record: InProgressRecord;
  /** Monotonic time until which the lease certainly holds: counted from before the admission was confirmed. */
  readonly ownedUntilMs: number;
}

export async function runLease<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  submission: Submission,
  work: Work<Tx, "lease">,
): Promise<Result> {
  return runCourse(runtime, operation, submission, bareCourse(runtime, operation, work));
}

/** A request's submission. */
export async function runCourse<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  submission: Submission,
  course: Course,
): Promise<Result> {
  checkSubmission(submission);
  const lookup = await limited(runtime, operation, submission, "lookups");
  const countNewKey = newKeyCounter(runtime, operation, submission);
  const result =
    lookup ??
    (await answerOfCopy(runtime, operation, submission)) ??
    (await waiting(runtime, operation, async () => {
      const job: Job<Tx> = {
        runtime,
        operation,
        submission,
        course,
        by: "request",
        countNewKey,
        token: runtime.ports.random.token(),
      };
      const admitted = await admit(job);
      return "record" in admitted ? perform(job, admitted) : admitted;
    }));
  report(runtime, operation, submission, result);
  return result;
}

/** A worker goes on with a record. Whatever it meets there instead is the result. */
export async function resumeCourse<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  record: LatchkeyRecord,
  course: Course,
): Promise<Result> {
  const job = workersJob(runtime, operation, record, course, runtime.ports.random.token());
  const admitted = await admit(job);
  return "record" in admitted ? perform(job, admitted) : admitted;
}

/**
 * A worker begins with a record that it has claimed.
 *
 * @param claimedAtMs monotonic time before the claim was sent: from then on its lease is counted
 */
export async function claimedCourse<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  record: InProgressRecord,
  course: Course,
  claimedAtMs: number,
): Promise<Result> {
  const job = workersJob(runtime, operation, record, course, record.fence.token);
  const claimed = { record, ownedUntilMs: claimedAtMs + operation.settings.leaseMs };
  const admitted = mayStart(job, claimed) ? claimed : await admit(job);
  return "record" in admitted ? perform(job, admitted) : admitted;
}

function workersJob<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  { tenant, scope, key, fingerprint, principal }: LatchkeyRecord,
  course: Course,
  token: string,
): Job<Tx> {
  return {
    runtime,
    operation,
    submission: { key: { tenant, scope, key }, fingerprint, principal },
    course,
    by: "worker",
    // The life it was to go on with is over.
    countNewKey: async () => ({ kind: "expired" }),
    token,
  };
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

/** Renews an attempt whose handler was not started in time, or whose admission was in doubt; or frees its key. */
async function confirm<Tx>(
  { runtime, operation, by }: Job<Tx>,
  record: InProgressRecord,
): Promise<Confirmed> {
  const { store } = runtime;
  const { leaseMs } = operation.settings;
  const sentAtMs = runtime.ports.clock.monotonicMs();
  const renewed = await store.renew(record, record.id, record.fence, leaseMs).catch(() => null);
  if (renewed === null) return { kind: "in_doubt" };
  if (renewed) return { kind: "held", record, ownedUntilMs: sentAtMs + leaseMs };
  // An earlier attempt of the same life may have run, or its request was accepted: then its key stays with it.
  const end: AttemptEnd =
    record.fence.attempt === 1 && by === "request"
      ? { event: "release" }
      : { event: "retry_later", errorCode: "not-started", resumeAfterMs: by === "worker" ? leaseMs : null };
  await store.end(record, record.id, record.fence, end).catch(() => null);
  return { kind: "given_back" };
}

async function tryAdmit<Tx>(job: Job<Tx>): Promise<Admitted | Result | null> {
  const { runtime, operation, submission, token } = job;
  const { store } = runtime;
  const sentAtMs = runtime.ports.clock.monotonicMs();
  const { record, now } = await store.read(submission.key);
  const terms = leaseTerms(operation);
  const ownedUntilMs = sentAtMs + terms.leaseMs;
  const verdict = decide(record, admissionRequest(operation, submission, token), now);
  switch (verdict.kind) {
    case "answer":
      return resultOf(runtime, verdict.decision, now);
    case "own":
      // Of a write in doubt: it can be read before it is certain to stay. A write that follows it says so.
      return { record: verdict.record, ownedUntilMs: Number.NEGATIVE_INFINITY };
    case "give_up":
      await giveUp(runtime, operation, submission.key, verdict.guard, verdict.because);
      return null;
    case "create": {
      const refused = await job.countNewKey();
      if (refused !== null) return refused;
      const life = await newLife(job, now);
      return admittedOrNull(ownedUntilMs, () => store.create(life, verdict.replaces, terms));
    }
    case "take_over":
      if (record?.state === "in_progress" && (await isOfHandler(job, record))) {
        await giveUp(runtime, operation, submission.key, verdict.guard, "lease-ended");
        return null;
      }
      return admittedOrNull(ownedUntilMs, () =>
        store.takeOver(submission.key, verdict.guard, submission.fingerprint, token, terms),
      );
    default:
      return verdict satisfies never;
  }
}

/**
 * Whether a dead attempt was one of a route's handler, from before the operation owned its work: what it did is in no
 * journal, so it cannot be gone on with.
 */
async function isOfHandler<Tx>({ runtime, course }: Job<Tx>, record: InProgressRecord): Promise<boolean> {
  if (!course.ownsWork) return false;
  const journal = await runtime.store.journal.read(record, record.id);
  return journal !== null && journal.input === null;
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

async function newLife<Tx>(job: Job<Tx>, now: number): Promise<NewLife> {
  const { key, fingerprint, principal, addressable = false } = job.submission;
  const id = job.runtime.ports.random.uuid(now);
  const input = await job.course.input(codecContext(key, id, fingerprint.digest, "input"));
  return {
    tenant: key.tenant,
    scope: key.scope,
    key: key.key,
    id,
    operation: job.operation.name,
    fingerprint,
    principal,
    fence: { attempt: 1, token: job.token },
    ...(input === null ? {} : { input }),
    ...(addressable ? { addressable } : {}),
  };
}

/** How an attempt of this operation holds its record. */
export function leaseTerms({ execution, settings }: Operation): LeaseTerms {
  const { leaseMs, leaseEnd, attemptsMax, retentionMs, pendingLimitMs } = settings;
  // What has waited for its first attempt has as long for the others as any.
  const waitedMs = execution === "deferred" ? pendingLimitMs : 0;
  return { leaseMs, leaseEnd, attemptsMax, abandonAfterMs: waitedMs + retentionMs };
}

async function perform<Tx>(job: Job<Tx>, admitted: Admitted): Promise<Result> {
  const { runtime, operation, submission } = job;
  const { record, ownedUntilMs } = admitted;
  const about = { ...runtime.about(operation.name, submission.key), recordId: record.id };
  const held = holdLease(runtime, {
    record,
    leaseMs: operation.settings.leaseMs,
    ownedUntilMs,
    onLost: () => runtime.emit({ ...about, type: "lease_lost" }),
  });
  const handle = createHandle(record, held.signal, operation.settings);
  const run = job.course.begin(held, handle);
  try {
    const startedAt = runtime.ports.clock.monotonicMs();
    const ran = await withLimit(runtime.ports.clock, operation.settings.attemptLimitMs, () => run.work());
    if (ran.kind === "timed_out") held.abort(new Error("The attempt ran longer than its limit"));
    // A beat may meet the attempt's own last write: what became of that one says whether the lease was lost.
    held.conclude();
    const result = await conclude(job, held, await run.conclude(ran));
    const durationMs = runtime.ports.clock.monotonicMs() - startedAt;
    if (result.kind === "executed") {
      runtime.emit({ ...about, type: "executed", attempt: record.fence.attempt, durationMs });
    }
    return result;
  } finally {
    held.stop();
    run.over();
  }
}

async function conclude<Tx>(
  job: Job<Tx>,
  held: HeldLease,
  { ran, end, ...conclusion }: Conclusion,
): Promise<Result> {
  const { runtime, operation, submission } = job;
  const leaseLost = held.lost;
  const about = { ...runtime.about(operation.name, submission.key), recordId: held.record().id };
  if (ran.kind === "threw") runtime.emit({ ...about, type: "attempt_failed", error: ran.error });
  const lostBefore = leaseLost.aborted;
  const ended = conclusion.ended ?? (await endHeld(runtime, held, end));
  const record = held.record();
  const lost = ended.kind === "lost" || (ended.kind === "in_doubt" && leaseLost.aborted);
  if (lost && !lostBefore) runtime.emit({ ...about, type: "lease_lost" });
  if (ended.kind === "ended" && end.event === "release") runtime.emit({ ...about, type: "released" });
  // A last phase has reported its own doubt.
  if (ended.kind === "in_doubt" && conclusion.ended === null) {
    const { recordId: _, ...what } = about;
    runtime.emit({ ...what, type: "commit_in_doubt", resolved: "in_doubt" });
  }
  if (ended.kind === "ended") return resultOfOwner(record, ran, end, ended.expiresAt);
  if (ended.kind === "lost" && (await settledLate(runtime, record, end))) {
    return resultOfOwner(record, ran, end, null);
  }
  if (ended.kind === "lost" || ran.kind === "threw") {
    // The fence was lost or is in doubt: never the loser's own result. Nor is it told that its own record runs: nobody
    // runs it any more.
    const isOwn = (token: string) => token === job.token || held.isOwnToken(token);
    const said = await whatTheRecordSays(job, isOwn);
    if (said !== null) return said;
  }
  if (ended.kind === "in_doubt" && ran.kind === "threw") throw ran.error;
  return { kind: "commit_in_doubt", retryAfterMs: doubtRetryAfterMs };
}

/**
 * A step that outlives its attempt may take a new token meanwhile, to learn what became of its COMMIT. Who is refused under
 * the old one has the new one, or has lost.
 */
async function endHeld<Tx>(runtime: Runtime<Tx>, held: HeldLease, end: AttemptEnd): Promise<Ended> {
  const record = held.record();
  const ended = await endAttempt(runtime, record, end, held.lost);
  const fence = held.latestFence();
  if (ended.kind !== "lost" || sameFence(fence, record.fence)) return ended;
  return endAttempt(runtime, { ...record, fence }, end, held.lost);
}

/** Nobody has gone on since: the owner's whole answer settles what was written off as unknown. */
async function settledLate<Tx>(
  runtime: Runtime<Tx>,
  record: InProgressRecord,
  end: AttemptEnd,
): Promise<boolean> {
  return end.event === "complete" && (await settleOwnAnswer(runtime, record, end));
}

/** The end of the attempt is confirmed: the owner's own result is the truth. */
function resultOfOwner(
  record: InProgressRecord,
  ran: Concluded,
  end: AttemptEnd,
  expiresAt: number | null,
): Result {
  switch (ran.kind) {
    case "returned":
      return {
        kind: "executed",
        recordId: record.id,
        answer: ran.value,
        stored: end.event === "complete" || end.event === "fail",
        expiresAt,
      };
    case "threw":
      throw ran.error;
    case "timed_out":
    case "in_doubt":
      return {
        kind: "unknown",
        recordId: record.id,
        retryAfterMs: end.event === "doubt" ? end.reconcileAfterMs : null,
      };
    default:
      return ran satisfies never;
  }
}
