/** What became of a submission, for the inbox. */

import { isLatchkeyError, StoreError } from "../errors.ts";
import type { Result } from "../operations/attempt.ts";
import { sqlStateOf } from "../sql/sql-state.ts";
import type { GiveBackReason, MessageDeath, Verdict } from "./broker.ts";

export type MessageResult =
  | { readonly kind: "done"; readonly because: Extract<Verdict, { settle: "ack" }>["because"] }
  | {
      readonly kind: "busy";
      readonly because: GiveBackReason;
      readonly afterMs: number | null;
      /** False if certainly nothing ran. True: it may be retried only while its key cannot have been forgotten. */
      readonly mayHaveHappened: boolean;
    }
  | {
      readonly kind: "failed";
      readonly because: "handler-failed" | "outcome-unknown";
      readonly errorCode: string;
      readonly error: unknown;
    }
  | { readonly kind: "dead"; readonly because: MessageDeath; readonly error: unknown };

export function messageResultOf(result: Result): MessageResult {
  switch (result.kind) {
    case "executed":
      return result.stored ? { kind: "done", because: "executed" } : notStored(result.answer.status);
    case "replay":
    // The answer has expired, but the record shows that the message has run.
    case "expired":
      return { kind: "done", because: "duplicate" };
    case "accepted":
      return { kind: "done", because: "accepted" };
    case "in_progress":
      return busy("in-progress");
    case "too_many_keys":
      return { ...busy("too-many-keys"), afterMs: result.retryAfterMs };
    case "commit_in_doubt":
      return { ...busy("commit-in-doubt"), mayHaveHappened: true };
    case "key_misuse":
      return { kind: "dead", because: "key-misuse", error: null };
    case "timeout":
      return { kind: "dead", because: "timeout", error: null };
    case "unknown":
      return { kind: "failed", because: "outcome-unknown", errorCode: "outcome-unknown", error: null };
    default:
      return result satisfies never;
  }
}

export function busy(because: GiveBackReason): Extract<MessageResult, { kind: "busy" }> {
  return { kind: "busy", because, afterMs: null, mayHaveHappened: false };
}

function notStored(status: number): MessageResult {
  const errorCode = status >= 400 ? `status-${status}` : "released";
  return { kind: "failed", because: "handler-failed", errorCode, error: null };
}

export function messageResultOfError(error: unknown): MessageResult {
  if (isStoreUnavailable(error)) {
    return { ...busy("store-unavailable"), mayHaveHappened: mayHaveHappened(error) };
  }
  if (isLatchkeyError(error) && error.code === "message-refused") {
    return { kind: "dead", because: "refused", error };
  }
  return { kind: "failed", because: "handler-failed", errorCode: codeOf(error), error };
}

function isStoreUnavailable(error: unknown): boolean {
  return isLatchkeyError(error) && error.code === "store-unavailable";
}

/** Whether the failed call of the store may have taken effect. */
export function mayHaveHappened(error: unknown): boolean {
  return !(error instanceof StoreError) || error.certainty === "in_doubt";
}

/** The part of an error that may be stored: never its message, which may contain anything. */
function codeOf(error: unknown): string {
  if (isLatchkeyError(error)) return error.code;
  const state = sqlStateOf(error);
  return state === null ? "handler-threw" : `sqlstate-${state}`;
}
