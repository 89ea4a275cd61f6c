/** A reply to a client, in a form that can be compared. */
import type { Result } from "../../../packages/latchkey/src/index.ts";
import { isLatchkeyError } from "../../../packages/latchkey/src/index.ts";

export type Reply =
  | { readonly kind: "answer"; readonly how: "executed" | "replay"; readonly bytes: string }
  | { readonly kind: "unknown"; readonly waitsForPerson: boolean }
  | { readonly kind: "accepted" | "in_progress" | "key_misuse" | "expired" | "timeout" }
  | { readonly kind: "refused"; readonly why: string };

export function replyOf(result: Result): Reply {
  switch (result.kind) {
    case "executed":
    case "replay": {
      const { status, headers, body, omitted } = result.answer;
      const bytes = JSON.stringify({ status, headers, body: Buffer.from(body).toString("base64"), omitted });
      return { kind: "answer", how: result.kind, bytes };
    }
    case "unknown":
      return { kind: "unknown", waitsForPerson: result.retryAfterMs === null };
    case "accepted":
    case "in_progress":
    case "key_misuse":
    case "expired":
    case "timeout":
      return { kind: result.kind };
    case "commit_in_doubt":
    case "too_many_keys":
      return { kind: "refused", why: result.kind };
    default:
      return result satisfies never;
  }
}

export function failed(error: unknown): Reply {
  return { kind: "refused", why: isLatchkeyError(error) ? `${error.code}: ${error.message}` : String(error) };
}
