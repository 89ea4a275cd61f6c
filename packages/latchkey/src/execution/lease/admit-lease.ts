/** Admission under a lease: the reservation commits before the work begins. */
import { decide } from "../../engine/decide.ts";
import type { InProgressRecord } from "../../engine/record.ts";
import { StoreError } from "../../errors.ts";
import type { Result } from "../../operations/attempt.ts";
import type { Operation } from "../../operations/operation.ts";
import { pause } from "../../ports.ts";
import type { NewLife } from "../../stores/life.ts";
import type { AttemptEnd, LeaseTerms } from "../../stores/store.ts";
import { retryPauseMs } from "../../time/retry-pause.ts";
import { admissionRequest, type CountNewKey, giveUp, resultOf } from "../admission.ts";
import { type Submitted, traceOf } from "../attempt-span.ts";
import { settleWithEarly } from "../early-settlement.ts";
import type { Runtime } from "../runtime.ts";
import { codecContext } from "../stored-values.ts";
import { summarized } from "../summarize.ts";
import { stopsAtMs } from "./heartbeat.ts";
import { reportAdmission, reportEnd, type TakenFrom } from "./lease-events.ts";
import type { LeasedWork } from "./leased-work.ts";

/** How often admission starts over: each time, another writer has changed the record. */
const admissionsMax = 20;
/** Shorter than for lost transactions, because an admission is one write. */
const admissionPauses = { firstMs: 5, maxMs: 250 };

/** One submission, or one record that a worker continues, under a lease. */
export interface LeaseJob<Tx> {
  readonly runtime: Runtime<Tx>;
  readonly operation: Operation;
  readonly submission: Submitted;
  readonly leasedWork: LeasedWork;
  /** A worker continues an existing record, and never begins a life. */
  readonly by: "request" | "worker";
  /** One token per submission, to recognise its own admission after a lost reply. */
  readonly token: string;
  /** Counts the key as new, once for each submission, even if admission starts over. */
  readonly countNewKey: CountNewKey;
}

export interface Admitted {
  readonly record: InProgressRecord;
  /** Monotonic time until which the lease is certain to hold: counted from before the admission was confirmed. */
  readonly ownedUntilMs: number;
  readonly from: TakenFrom;
}

/** Takes the lease, or returns the result to answer with instead. */
export async function admit<Tx>(job: LeaseJob<Tx>): Promise<Admitted | Result> {
  const { clock, random } = job.runtime.ports;
  const announced = new Set<string>();
  let current = job;
  for (let round = 1; round <= admissionsMax; round++) {
    const admitted = await tryAdmit(current);
    if (admitted !== null) {
      if (!("record" in admitted)) return admitted;
      reportAdmission(job, admitted, announced);
      if (mayStart(job, admitted)) return admitted;
      const confirmed = await confirm(job, admitted.record);
      if (confirmed.kind === "held" && mayStart(job, confirmed)) return confirmed;
      // A record that was given back may be deleted at any later time: nothing may start under its token.
      if (confirmed.kind === "given_back") current = { ...job, token: random.token() };
    }
    await pause(clock, retryPauseMs(round, random, admissionPauses));
  }
  throw new StoreError("rolled_back", {
    message: `Gave up after ${admissionsMax} tries: other writers changed the record first, or the store answered too late`,
  });
}

/** A reply that took as long as the lease says nothing about the current owner. */
export function mayStart<Tx>({ runtime, operation }: LeaseJob<Tx>, { ownedUntilMs }: Admitted): boolean {
  return runtime.ports.clock.monotonicMs() < stopsAtMs(ownedUntilMs, operation.settings.leaseMs);
}

type Confirmed =
  | (Admitted & { readonly kind: "held" })
  | { readonly kind: "given_back" }
  | { readonly kind: "in_doubt" };

/** Renews an attempt whose handler did not start in time, or whose admission was in doubt; or frees its key. */
async function confirm<Tx>(
  { runtime, operation, by }: LeaseJob<Tx>,
  record: InProgressRecord,
): Promise<Confirmed> {
  const { store } = runtime;
  const { leaseMs } = operation.settings;
  const sentAtMs = runtime.ports.clock.monotonicMs();
  const renewed = await store.renew(record, record.id, record.fence, leaseMs).catch(() => null);
  if (renewed === null) return { kind: "in_doubt" };
  if (renewed) return { kind: "held", record, ownedUntilMs: sentAtMs + leaseMs, from: null };
  // If an earlier attempt of the life may have run, or its request was accepted, the life keeps its key.
  const end: AttemptEnd =
    record.fence.attempt === 1 && by === "request"
      ? { event: "release" }
      : { event: "retry_later", errorCode: "not-started", resumeAfterMs: by === "worker" ? leaseMs : null };
  const ended = await store.end(record, record.id, record.fence, end).catch(() => null);
  if (ended !== null) reportEnd(runtime, record, end);
  return { kind: "given_back" };
}

async function tryAdmit<Tx>(job: LeaseJob<Tx>): Promise<Admitted | Result | null> {
  const { runtime, operation, submission, token } = job;
  const { store } = runtime;
  const sentAtMs = runtime.ports.clock.monotonicMs();
  const { record, now } = await store.read(submission.key);
  const terms = leaseTerms(operation);
  const ownedUntilMs = sentAtMs + terms.leaseMs;
  const verdict = decide(record, admissionRequest(operation, submission, token), now);
  switch (verdict.kind) {
    case "answer":
      if (record?.state === "unknown" && (await settleWithEarly(runtime, submission.key, record.id))) {
        return tryAdmit(job);
      }
      return resultOf(runtime, verdict.decision, now);
    case "own":
      // A write in doubt can be read before it is certain to persist; a later write to the record confirms it.
      return {
        record: verdict.record,
        ownedUntilMs: Number.NEGATIVE_INFINITY,
        from: verdict.record.fence.attempt === 1 ? "none" : "in_progress",
      };
    case "give_up":
      await giveUp(runtime, operation, submission.key, verdict.guard, verdict.because);
      return null;
    case "create": {
      const refused = await job.countNewKey();
      if (refused !== null) return refused;
      const life = await newLife(job, now);
      return admittedOrNull(ownedUntilMs, "none", () => store.create(life, verdict.replaces, terms));
    }
    case "take_over":
      if (record?.state === "in_progress" && (await isOfHandler(job, record))) {
        await giveUp(runtime, operation, submission.key, verdict.guard, "lease-ended");
        return null;
      }
      // A worker's span has the link from its beginning.
      if (job.by === "request") submission.span?.link(record?.trace);
      return admittedOrNull(ownedUntilMs, record?.state === "retryable" ? "retryable" : "in_progress", () =>
        store.takeOver(submission.key, verdict.guard, submission.fingerprint, token, terms),
      );
    default:
      return verdict satisfies never;
  }
}

/**
 * Whether a dead attempt ran a route's handler, before the operation owned its work: no journal shows what it did, so it
 * cannot be continued.
 */
async function isOfHandler<Tx>(
  { runtime, leasedWork }: LeaseJob<Tx>,
  record: InProgressRecord,
): Promise<boolean> {
  if (!leasedWork.ownsWork) return false;
  const journal = await runtime.store.journal.read(record, record.id);
  return journal !== null && journal.input === null;
}

/** Finds an admission whose reply was lost by reading: its record then has this submission's token. */
async function admittedOrNull(
  ownedUntilMs: number,
  from: Admitted["from"],
  write: () => Promise<InProgressRecord | null>,
): Promise<Admitted | null> {
  try {
    const record = await write();
    return record === null ? null : { record, ownedUntilMs, from };
  } catch (error) {
    if (error instanceof StoreError && error.certainty === "in_doubt") return null;
    throw error;
  }
}

async function newLife<Tx>(job: LeaseJob<Tx>, now: number): Promise<NewLife> {
  const { key, fingerprint, principal, addressable = false } = job.submission;
  const id = job.runtime.ports.random.uuid(now);
  const input = await job.leasedWork.input(codecContext(key, id, fingerprint.digest, "input"));
  return {
    tenant: key.tenant,
    scope: key.scope,
    key: key.key,
    id,
    operation: job.operation.name,
    fingerprint,
    principal,
    fence: { attempt: 1, token: job.token },
    ...traceOf(job.submission.span),
    ...(input === null ? {} : { input }),
    ...(addressable ? { addressable } : {}),
    ...(await summarized(job.runtime, job.operation, job.submission, id)),
  };
}

/** How an attempt of this operation holds its record. */
export function leaseTerms({ execution, settings }: Operation): LeaseTerms {
  const { leaseMs, leaseEnd, attemptsMax, retentionMs, pendingLimitMs } = settings;
  // Time spent waiting for the first attempt does not reduce the time for later ones.
  const waitedMs = execution === "deferred" ? pendingLimitMs : 0;
  return { leaseMs, leaseEnd, attemptsMax, abandonAfterMs: waitedMs + retentionMs };
}
