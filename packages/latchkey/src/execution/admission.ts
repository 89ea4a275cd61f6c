/** Shared by all executions: builds the request for `decide`, and turns a decision into a caller's result. */

import { type AdmissionRequest, type Decision, decide, type GiveUpReason } from "../engine/decide.ts";
import type { FinishedRecord, Guard, RecordKey } from "../engine/record.ts";
import { decodeAnswer } from "../operations/answer.ts";
import type { Result, Submission } from "../operations/attempt.ts";
import { overLimit, type RateLimitName } from "../operations/limits.ts";
import type { Operation } from "../operations/operation.ts";
import type { Reading } from "../stores/life.ts";
import { checkStorable } from "../stores/storable.ts";
import type { About, LatchkeyEvent } from "../telemetry/events.ts";
import { withLimit } from "../time/time-limit.ts";
import type { Submitted } from "./attempt-span.ts";
import { settleWithEarly } from "./early-settlement.ts";
import { noteRepeat } from "./facts.ts";
import type { ActiveKeyCap } from "./guards/active-key-cap.ts";
import type { Runtime } from "./runtime.ts";
import { codecContext } from "./stored-values.ts";

/** The shortest delay, and the default if nothing is known about the attempt. */
const retryAfterDefaultMs = 1_000;
const retryAfterMaxMs = 10_000;

/** @throws {TypeError} when a store could not store a name of the record, or could confuse it with another. */
export function checkSubmission({ key, principal }: Submission): void {
  checkStorable("tenant", key.tenant);
  checkStorable("scope", key.scope);
  checkStorable("key", key.key);
  checkStorable("principal", principal ?? "");
}

export function admissionRequest(
  operation: Operation,
  submission: Submission,
  token: string,
): AdmissionRequest {
  const { reuse, leaseEnd, attemptsMax } = operation.settings;
  return {
    operation: operation.name,
    fingerprint: submission.fingerprint,
    principal: submission.principal,
    token,
    reuse,
    leaseEnd: operation.execution === "transaction" ? "reconcile" : leaseEnd,
    attemptsMax,
  };
}

/** Counts a submission against one of its tenant's limits. Null: there is no limit, or it is not reached. */
export async function limited<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  submission: Submission,
  because: RateLimitName,
): Promise<Extract<Result, { kind: "too_many_keys" }> | null> {
  const limiter = runtime.limits[because];
  if (limiter === undefined) return null;
  const about = runtime.about(operation.name, submission.key);
  const retryAfterMs = await overLimit(runtime.ports.clock, limiter, submission.key.tenant, (error) =>
    runtime.emit({ ...about, type: "limiter_error", limit: because, error }),
  );
  return retryAfterMs === null ? null : { kind: "too_many_keys", because, retryAfterMs };
}

/** Counts the submission's key as new, once, even if admission starts over. Null: it may begin. */
export type CountNewKey = () => Promise<Result | null>;

/** Runs a submission that may begin a new key. */
export function countingNewKey<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  submission: Submission,
  run: (countNewKey: CountNewKey) => Promise<Result>,
): Promise<Result> {
  let counted: Promise<Result | null> | null = null;
  const countOnce: CountNewKey = () => {
    counted ??= limited(runtime, operation, submission, "newKeys");
    return counted;
  };
  return runtime.activeKeys === null
    ? run(countOnce)
    : withinCap(runtime.activeKeys, submission.key.tenant, countOnce, run);
}

/** Releases the key's place under the cap if it has no record. If an error leaves that open, the next count corrects it. */
async function withinCap(
  cap: ActiveKeyCap,
  tenant: string,
  countOnce: CountNewKey,
  run: (countNewKey: CountNewKey) => Promise<Result>,
): Promise<Result> {
  let taken = false;
  let kept = false;
  try {
    const result = await run(async () => {
      const retryAfterMs = taken ? null : cap.take(tenant);
      if (retryAfterMs !== null) return { kind: "too_many_keys", because: "activeKeys", retryAfterMs };
      taken = true;
      return countOnce();
    });
    kept = result.kind === "executed" ? result.stored : keeps.has(result.kind);
    return result;
  } finally {
    if (taken && !kept) cap.giveBack(tenant);
  }
}

const keeps: ReadonlySet<Result["kind"]> = new Set(["accepted", "in_progress", "unknown", "commit_in_doubt"]);

/** Turns a decision into a caller's result. */
export function resultOf<Tx>(
  runtime: Runtime<Tx>,
  decision: Decision,
  now: number,
): Result | Promise<Result> {
  switch (decision.kind) {
    case "replay":
      return replayOf(runtime, decision.record);
    case "timeout":
      return { kind: "timeout", recordId: decision.recordId };
    case "in_progress":
      return {
        kind: "in_progress",
        recordId: decision.recordId,
        retryAfterMs: askAgainMs(decision, now),
      };
    case "key_misuse":
      return decision;
    case "unknown": {
      const after = decision.reconcileAfter;
      const retryAfterMs = after === null ? null : Math.max(retryAfterDefaultMs, after - now);
      return { kind: "unknown", recordId: decision.recordId, retryAfterMs };
    }
    case "expired":
      return { kind: "expired" };
    default:
      return decision satisfies never;
  }
}

/**
 * Half of the time that the attempt has run so far. So the retry that gets the answer comes late by at most half of the attempt's
 * running time, and the number of retries grows with its logarithm. Never after the end of the lease, when the record's outcome
 * is decided.
 */
export function askAgainMs(
  { createdAt, leaseEndsAt }: Extract<Decision, { kind: "in_progress" }>,
  now: number,
): number {
  if (createdAt === null) return retryAfterDefaultMs;
  const leaseMs = leaseEndsAt === null ? retryAfterMaxMs : leaseEndsAt - now;
  const wantedMs = Math.min(Math.ceil((now - createdAt) / 2), retryAfterMaxMs, leaseMs);
  return Math.max(wantedMs, retryAfterDefaultMs);
}

function replayOf<Tx>(runtime: Runtime<Tx>, record: FinishedRecord): Result | Promise<Result> {
  if (record.answer === null) return { kind: "timeout", recordId: record.id };
  const context = codecContext(record, record.id, record.fingerprint.digest, "answer");
  const plain = runtime.codec.decode(record.answer, context);
  return plain instanceof Uint8Array
    ? replayed(record, plain)
    : plain.then((decoded) => replayed(record, decoded));
}

function replayed(record: FinishedRecord, plain: Uint8Array): Result {
  const { id: recordId, expiresAt, trace } = record;
  const replay = { kind: "replay", recordId, answer: decodeAnswer(plain), expiresAt } as const;
  return trace === undefined ? replay : { ...replay, trace };
}

/** The caller of an ended attempt waits: a store that has not answered by then will not help. */
const lookAgainLimitMs = 5_000;

/** Reads the record again; null when the store fails or does not answer. */
export async function lookAgain<Tx>(runtime: Runtime<Tx>, key: RecordKey): Promise<Reading | null> {
  const seen = await withLimit(runtime.ports.clock, lookAgainLimitMs, () => runtime.store.read(key));
  return seen.kind === "returned" ? seen.value : null;
}

/**
 * What the record means for this submission, after its own attempt did not end the record. Null if the store does not answer,
 * or if the submission could run again, or the record runs under the submission's own token.
 */
export async function resultFromRecord<Tx>(
  {
    runtime,
    operation,
    submission,
  }: {
    readonly runtime: Runtime<Tx>;
    readonly operation: Operation;
    readonly submission: Submission;
  },
  isOwnToken: (token: string) => boolean = () => false,
): Promise<Result | null> {
  const reading = await lookAgain(runtime, submission.key);
  if (reading === null) return null;
  const { record } = reading;
  if (record?.state === "in_progress" && isOwnToken(record.fence.token)) return null;
  const request = admissionRequest(operation, submission, runtime.ports.random.token());
  const verdict = decide(record, request, reading.now);
  return verdict.kind === "answer" ? resultOf(runtime, verdict.decision, reading.now) : null;
}

/** After an ended lease, an automatic look-up starts at once if there is one; other reasons need a person. */
export function reconcileGivenUp(operation: Operation, because: GiveUpReason): number | null {
  const automatic = "work" in operation || operation.settings.lookup !== null;
  return because === "lease-ended" && automatic ? 0 : null;
}

/** Marks a dead attempt as `unknown`, unless another process was faster. */
export async function giveUp<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  key: RecordKey,
  guard: Guard,
  because: GiveUpReason,
): Promise<void> {
  const afterMs = reconcileGivenUp(operation, because);
  const done = await runtime.store.giveUp(key, guard, because, afterMs);
  if (!done) return;
  const about = runtime.about(operation.name, key);
  runtime.emit({ ...about, type: "lease_rescued", recordId: guard.id, because });
  await settleWithEarly(runtime, key, guard.id);
}

/**
 * Reports how a submission ended, unless its attempt has reported that.
 *
 * @param began whether it ran an attempt of its own, so that it is not a repeated request
 */
export function report<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  submission: Submitted,
  result: Result,
  began = false,
): void {
  if (result.kind === "executed" || result.kind === "commit_in_doubt") return;
  runtime.emit(eventOf(result, runtime.about(operation.name, submission.key)));
  if (!began) noteRepeat(runtime, operation, submission, result);
}

type Reported = Exclude<Result, { readonly kind: "executed" | "commit_in_doubt" }>;

function eventOf(result: Reported, about: About): LatchkeyEvent {
  switch (result.kind) {
    case "replay":
    case "timeout":
      return { ...about, type: "replayed", recordId: result.recordId };
    case "in_progress":
      return { ...about, type: "in_progress" };
    case "expired":
      return { ...about, type: "expired" };
    case "key_misuse":
      return { ...about, type: "key_misuse", because: result.because };
    case "too_many_keys":
      return { ...about, type: "too_many_keys", because: result.because };
    case "unknown":
      return { ...about, type: "unknown", recordId: result.recordId };
    case "accepted":
      return { ...about, type: "accepted", recordId: result.recordId };
    default:
      return result satisfies never;
  }
}
