/** What a submission has come to, as the inbox sees it. */
import type { Result } from "../attempt/attempt.ts";
import { sqlStateOf } from "../attempt/sql-state.ts";
import { isLatchkeyError } from "../errors.ts";
import type { GiveBackReason, MessageDeath, Verdict } from "./broker.ts";

export type Outcome =
  | { readonly kind: "done"; readonly because: Extract<Verdict, { settle: "ack" }>["because"] }
  /** Nothing ran, or nothing is known to have: it may be tried again soon. */
  | { readonly kind: "busy"; readonly because: GiveBackReason; readonly afterMs: number | null }
  | {
      readonly kind: "failed";
      readonly because: "handler-failed" | "outcome-unknown";
      readonly errorCode: string;
      readonly error: unknown;
    }
  | { readonly kind: "dead"; readonly because: MessageDeath; readonly error: unknown };

export function outcomeOf(result: Result): Outcome {
  switch (result.kind) {
    case "executed":
      return result.stored ? { kind: "done", because: "executed" } : notStored(result.answer.status);
    case "replay":
    // Its answer is gone, its record says that it has run.
    case "expired":
      return { kind: "done", because: "duplicate" };
    case "accepted":
      return { kind: "done", because: "accepted" };
    case "in_progress":
      return { kind: "busy", because: "in-progress", afterMs: null };
    case "too_many_keys":
      return { kind: "busy", because: "too-many-keys", afterMs: result.retryAfterMs };
    case "commit_in_doubt":
      return { kind: "busy", because: "commit-in-doubt", afterMs: null };
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

function notStored(status: number): Outcome {
  const errorCode = status >= 400 ? `status-${status}` : "released";
  return { kind: "failed", because: "handler-failed", errorCode, error: null };
}

export function outcomeOfError(error: unknown): Outcome {
  if (isStoreUnavailable(error)) return { kind: "busy", because: "store-unavailable", afterMs: null };
  if (isLatchkeyError(error) && error.code === "message-refused") {
    return { kind: "dead", because: "refused", error };
  }
  return { kind: "failed", because: "handler-failed", errorCode: codeOf(error), error };
}

function isStoreUnavailable(error: unknown): boolean {
  return isLatchkeyError(error) && error.code === "store-unavailable";
}

/** What may be stored of an error: never its text, which may hold anything. */
function codeOf(error: unknown): string {
  if (isLatchkeyError(error)) return error.code;
  const state = sqlStateOf(error);
  return state === null ? "handler-threw" : `sqlstate-${state}`;
}
