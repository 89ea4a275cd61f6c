/** The outcome of a request, and the reply for every outcome but a handler's own answer. */

import type { Execution } from "../../engine/classify.ts";
import type { RecordKey } from "../../engine/record.ts";
import { StoreError } from "../../errors.ts";
import type { Answer } from "../../operations/answer.ts";
import type { Attempt, Result } from "../../operations/attempt.ts";
import type { ProblemCode } from "../../operations/policies/policy.ts";
import { type HeaderEntry, type Reply, tombstoneHeaders } from "./capture.ts";
import { formatHttpDate } from "./http-date.ts";
import type { HttpRules } from "./http-options.ts";
import { type Occurrence, problemReply, shouldRetryHeaders, wholeSeconds } from "./problem.ts";
import type { ReplyRules, Route } from "./route.ts";

export type HttpOutcome =
  /** Send the handler's own answer with all its headers; `added` are those that Latchkey added. */
  | { readonly kind: "handler"; readonly reply: Reply; readonly added: readonly HeaderEntry[] }
  /** Send this reply. Headers that the framework has prepared stay, unless the reply has the same names. */
  | { readonly kind: "latchkey"; readonly reply: Reply }
  /** Add the headers and let the handler answer as without Latchkey. Never for operations with `tx`. */
  | { readonly kind: "pass"; readonly attempt: Attempt; readonly headers: readonly HeaderEntry[] };

/** An outcome that the adapter sends itself. */
export type Answered = Exclude<HttpOutcome, { readonly kind: "pass" }>;

export function outcomeOf(
  replyRules: ReplyRules,
  result: Exclude<Result, { readonly kind: "executed" }>,
): Answered {
  switch (result.kind) {
    case "replay":
      return {
        kind: "latchkey",
        reply: withHeaders(replayOf(replyRules, result.answer), expiryOf(replyRules.rules, result.expiresAt)),
      };
    case "timeout":
      return problem(replyRules, "timeout", { operationRef: result.recordId });
    case "accepted":
      return accepted(replyRules.rules, { ...result, state: "pending" });
    case "in_progress":
      if (replyRules.rules.inProgress === 202 && result.recordId !== null) {
        return accepted(replyRules.rules, { ...result, recordId: result.recordId, state: "running" });
      }
      return problem(replyRules, "in-progress", {
        operationRef: result.recordId,
        retryAfterMs: result.retryAfterMs,
      });
    case "key_misuse":
      return problem(replyRules, "key-misuse", result.nothingHappened === true ? neverStarted : {});
    case "unknown":
      return problem(replyRules, "outcome-unknown", {
        operationRef: result.recordId,
        retryAfterMs: result.retryAfterMs,
      });
    case "expired":
      return problem(replyRules, "expired");
    case "too_many_keys":
      return problem(replyRules, "too-many-keys", {
        ...(result.because === "activeKeys" ? keysAreKept : {}),
        retryAfterMs: result.retryAfterMs,
      });
    case "commit_in_doubt":
      return problem(replyRules, "commit-in-doubt", { retryAfterMs: result.retryAfterMs });
    default:
      return result satisfies never;
  }
}

/** Of a key whose request certainly had no effect. */
const neverStarted: Occurrence = {
  safeNewKey: true,
  detail:
    "This idempotency key belongs to another request, which was never started and will not be. Send this one with a new key.",
};

/** Replaces the general detail, which is about rates: here too many keys are stored. */
const keysAreKept: Occurrence = {
  detail:
    "This account has the maximum number of idempotency keys. This attempt executed nothing; an earlier one with the same key " +
    "may have. Send the same request again later with the same key.",
};

function replayOf({ rules, policy }: ReplyRules, answer: Answer): Reply {
  const marker: HeaderEntry = [rules.replayHeader, "true"];
  if (answer.omitted === null) {
    return { status: answer.status, headers: [...answer.headers, marker], body: answer.body };
  }
  return {
    status: answer.status,
    headers: [
      ...tombstoneHeaders(answer.headers),
      marker,
      ["Idempotency-Status", "answer-not-stored"],
      ...shouldRetryHeaders(false, policy, rules),
    ],
    body: new Uint8Array(0),
  };
}

/** The answer for work that has not ended: 202, with the address of its status resource. */
export function accepted(
  { statusPath }: Pick<HttpRules, "statusPath">,
  work: {
    readonly recordId: string;
    readonly state: "pending" | "running";
    readonly retryAfterMs: number;
  },
): Answered {
  const headers: HeaderEntry[] = [
    ["Content-Type", "application/json"],
    ["Cache-Control", "no-store"],
    ["Retry-After", wholeSeconds(work.retryAfterMs)],
  ];
  if (statusPath !== null) headers.push(["Location", `${statusPath}/${work.recordId}`]);
  const body = Buffer.from(JSON.stringify({ status: work.state, operation_ref: work.recordId }), "utf8");
  return { kind: "latchkey", reply: { status: 202, headers, body } };
}

/** The header with the answer's expiry; empty if that is unknown or the answer is not kept. */
export function expiryOf({ expiresHeader }: HttpRules, expiresAt: number | null): readonly HeaderEntry[] {
  return expiresHeader === false || expiresAt === null ? [] : [[expiresHeader, formatHttpDate(expiresAt)]];
}

/** The reply with these headers, which replace its own of the same names. */
export function withHeaders(reply: Reply, added: readonly HeaderEntry[]): Reply {
  if (added.length === 0) return reply;
  const names = new Set(added.map(([name]) => name.toLowerCase()));
  const others = reply.headers.filter(([name]) => !names.has(name.toLowerCase()));
  return { ...reply, headers: [...others, ...added] };
}

export function problem(replyRules: ReplyRules, code: ProblemCode, occurrence: Occurrence = {}): Answered {
  return { kind: "latchkey", reply: problemReply(code, occurrence, replyRules.policy, replyRules.rules) };
}

const storeRetryAfterMs = 1_000;

/** How long to wait after a call to the store failed with this error. */
export function retryAfterStoreError(error: unknown): number {
  return Math.max(storeRetryAfterMs, (error instanceof StoreError ? error.retryAfterMs : null) ?? 0);
}

/** The answer when the store fails: no work ran, or all of it was rolled back or waits for the next attempt. */
export function storeDown<Tx, E extends Execution>(
  route: Route<Tx, E>,
  key: RecordKey,
  error: unknown,
): Answered {
  const { runtime } = route.latchkey;
  const about = runtime.about(route.operation.name, runtime.storedKey(key));
  runtime.emit({ ...about, type: "store_error", error });
  return problem(route, "store-unavailable", { retryAfterMs: retryAfterStoreError(error) });
}
