/**
 * `deferred` execution, the request's side: the request is stored, and its caller learns where to find its result. A worker
 * runs it as under a lease.
 */
import { decide } from "../../engine/decide.ts";
import type { LatchkeyRecord } from "../../engine/record.ts";
import { StoreError } from "../../errors.ts";
import type { Result } from "../../operations/attempt.ts";
import type { Operation } from "../../operations/operation.ts";
import { pause } from "../../ports.ts";
import type { NewLife } from "../../stores/life.ts";
import { conflictPauses, retryPauseMs } from "../../time/retry-pause.ts";
import {
  admissionRequest,
  type CountNewKey,
  checkSubmission,
  countingNewKey,
  giveUp,
  limited,
  report,
  resultOf,
} from "../admission.ts";
import { type Submitted, traceOf } from "../attempt-span.ts";
import { settleWithEarly } from "../early-settlement.ts";
import { answerOfCopy } from "../replay-lookup.ts";
import type { Runtime } from "../runtime.ts";
import { codecContext } from "../stored-values.ts";
import { summarized } from "../summarize.ts";

/** How often it starts over: each time, another writer has changed the record. */
const roundsMax = 20;

interface Job<Tx> {
  readonly runtime: Runtime<Tx>;
  readonly operation: Operation;
  readonly submission: Submitted;
  /** As plain JSON bytes. */
  readonly input: Uint8Array;
  /** One for each submission, to recognise its own acceptance after a lost reply. */
  readonly token: string;
  readonly countNewKey: CountNewKey;
}

export async function runDeferred<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  submission: Submitted,
  input: Uint8Array,
): Promise<Result> {
  checkSubmission(submission);
  const lookup = await limited(runtime, operation, submission, "lookups");
  const token = runtime.ports.random.token();
  const copied = lookup ?? (await answerOfCopy(runtime, operation, submission));
  const result =
    copied ??
    (await countingNewKey(runtime, operation, submission, (countNewKey) =>
      untilDecided({ runtime, operation, submission, input, token, countNewKey }),
    ));
  report(runtime, operation, submission, result);
  return result;
}

async function untilDecided<Tx>(job: Job<Tx>): Promise<Result> {
  const { clock, random } = job.runtime.ports;
  for (let round = 1; round <= roundsMax; round++) {
    const result = await tryAccept(job);
    if (result !== null) return result;
    await pause(clock, retryPauseMs(round, random, conflictPauses));
  }
  throw new StoreError("rolled_back", {
    message: `Gave up after ${roundsMax} tries: each time another writer had changed the record first`,
  });
}

/** Null: the record has changed; decide again on its new state. */
async function tryAccept<Tx>(job: Job<Tx>): Promise<Result | null> {
  const { runtime, operation, submission, token } = job;
  const { record, now } = await runtime.store.read(submission.key);
  const verdict = decide(record, admissionRequest(operation, submission, token), now);
  switch (verdict.kind) {
    case "answer":
      if (record?.state === "unknown" && (await settleWithEarly(runtime, submission.key, record.id))) {
        return tryAccept(job);
      }
      if (verdict.decision.kind !== "in_progress" || record === null) {
        return resultOf(runtime, verdict.decision, now);
      }
      // Its own acceptance, whose reply was lost.
      if (record.state === "pending" && record.fence.token === token) {
        reserved(job, record.id);
        runtime.hints.send("pending");
      }
      return accepted(job, record, now);
    case "own":
      return accepted(job, verdict.record, now);
    case "take_over":
      // A worker runs it.
      return record === null ? null : accepted(job, record, now);
    case "give_up":
      await giveUp(runtime, operation, submission.key, verdict.guard, verdict.because);
      return null;
    case "create": {
      const refused = await job.countNewKey();
      if (refused !== null) return refused;
      const life = await newLife(job, now);
      const pending = await acceptedOrNull(() =>
        runtime.store.accept(life, verdict.replaces, operation.settings.pendingLimitMs),
      );
      if (pending === null) return null;
      reserved(job, pending.id);
      runtime.hints.send("pending");
      return accepted(job, pending, now);
    }
    default:
      return verdict satisfies never;
  }
}

function reserved<Tx>({ runtime, operation, submission }: Job<Tx>, recordId: string): void {
  const about = runtime.about(operation.name, submission.key);
  runtime.emit({ ...about, type: "reserved", recordId, by: "deferred" });
}

async function acceptedOrNull<T>(write: () => Promise<T | null>): Promise<T | null> {
  try {
    return await write();
  } catch (error) {
    // The record shows whether it was accepted.
    if (error instanceof StoreError && error.certainty === "in_doubt") return null;
    throw error;
  }
}

async function accepted<Tx>({ runtime }: Job<Tx>, record: LatchkeyRecord, now: number): Promise<Result> {
  const { id, createdAt } = record;
  const leaseEndsAt = record.state === "in_progress" ? record.leaseEndsAt : null;
  const decision = { kind: "in_progress", recordId: id, createdAt, leaseEndsAt } as const;
  const running = await resultOf(runtime, decision, now);
  if (running.kind !== "in_progress") return running;
  return { kind: "accepted", recordId: id, retryAfterMs: running.retryAfterMs };
}

async function newLife<Tx>(job: Job<Tx>, now: number): Promise<NewLife> {
  const { runtime, operation, submission, input, token } = job;
  const { key, fingerprint, principal } = submission;
  const id = runtime.ports.random.uuid(now);
  const context = codecContext(key, id, fingerprint.digest, "input");
  return {
    tenant: key.tenant,
    scope: key.scope,
    key: key.key,
    id,
    operation: operation.name,
    fingerprint,
    principal,
    // The token of the acceptance; a worker starts the first attempt under its own token.
    fence: { attempt: 1, token },
    input: await runtime.codec.encode(input, context),
    addressable: true,
    ...traceOf(submission.span),
    ...(await summarized(runtime, operation, submission, id)),
  };
}
