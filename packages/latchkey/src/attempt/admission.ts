/** What both executions share: the request as `decide` sees it, and a decision as a caller is told. */
import type { CodecContext } from "../codec.ts";
import type { AdmissionRequest, Decision } from "../engine/decide.ts";
import type { FinishedRecord } from "../engine/record.ts";
import type { Operation } from "../operation.ts";
import { pause } from "../ports.ts";
import { type LimitName, overLimit } from "../resilience/limits.ts";
import type { LatchkeyEvent } from "../telemetry/events.ts";
import { decodeAnswer } from "./answer.ts";
import type { Result, Submission } from "./attempt.ts";
import type { Runtime } from "./runtime.ts";

/** A running attempt of unknown length: ask again after a second. */
const retryAfterDefaultMs = 1_000;
const waitStepMinMs = 20;
const waitStepMaxMs = 250;

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
    leaseEnd: operation.execution === "lease" ? leaseEnd : "reconcile",
    attemptsMax,
  };
}

/** Counts a submission against a limit of its tenant's. Null: none is set, or it may go on. */
export async function limited<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  submission: Submission,
  because: LimitName,
): Promise<Extract<Result, { kind: "too_many_keys" }> | null> {
  const limiter = runtime.limits[because];
  if (limiter === undefined) return null;
  const about = { operation: operation.name, keyHash: runtime.keyHash(submission.key) };
  const retryAfterMs = await overLimit(limiter, submission.key.tenant, (error) =>
    runtime.emit({ ...about, type: "limiter_error", limit: because, error }),
  );
  return retryAfterMs === null ? null : { kind: "too_many_keys", because, retryAfterMs };
}

/** Counts the submission's key as new, once, however often admission starts over. */
export function newKeyCounter<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  submission: Submission,
): () => Promise<Result | null> {
  let counted: Promise<Result | null> | null = null;
  return () => {
    counted ??= limited(runtime, operation, submission, "newKeys");
    return counted;
  };
}

/** A decision, as a caller is told. */
export async function resultOf<Tx>(runtime: Runtime<Tx>, decision: Decision, now: number): Promise<Result> {
  switch (decision.kind) {
    case "replay":
      return replayOf(runtime, decision.record);
    case "in_progress":
      return { kind: "in_progress", recordId: decision.recordId, retryAfterMs: retryAfterDefaultMs };
    case "key_misuse":
      return { kind: "key_misuse", because: decision.because };
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

async function replayOf<Tx>(runtime: Runtime<Tx>, record: FinishedRecord): Promise<Result> {
  if (record.answer === null) return { kind: "timeout", recordId: record.id };
  const plain = await runtime.codec.decode(
    record.answer,
    codecContext(record, record.id, record.fingerprint.digest),
  );
  return { kind: "replay", recordId: record.id, answer: decodeAnswer(plain), expiresAt: record.expiresAt };
}

export function codecContext(
  key: Submission["key"],
  recordId: string,
  fingerprint: Uint8Array,
): CodecContext {
  return { tenant: key.tenant, scope: key.scope, key: key.key, recordId, fingerprint };
}

/** Reports how a submission ended, where the attempt itself has not. */
export function report<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  submission: Submission,
  result: Result,
): void {
  const about = { operation: operation.name, keyHash: runtime.keyHash(submission.key) };
  const event = eventOf(result, about);
  if (event !== null) runtime.emit(event);
}

function eventOf(result: Result, about: { operation: string; keyHash: string }): LatchkeyEvent | null {
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
    case "executed":
    case "commit_in_doubt":
      return null;
    default:
      return result satisfies never;
  }
}

/**
 * Repeats `submit` while the key is running and the operation's wait has time left. Nothing is held between two tries.
 */
export async function waiting<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  submit: () => Promise<Result>,
): Promise<Result> {
  const { clock, random } = runtime.ports;
  const { waitMs } = operation.settings;
  const deadline = clock.monotonicMs() + (waitMs === false ? 0 : waitMs);
  let stepMs = waitStepMinMs;
  for (;;) {
    const result = await submit();
    const leftMs = deadline - clock.monotonicMs();
    if (result.kind !== "in_progress" || leftMs <= 0) return result;
    await pause(clock, Math.min(leftMs, stepMs * (0.5 + random.fraction())));
    stepMs = Math.min(stepMs * 2, waitStepMaxMs);
  }
}
