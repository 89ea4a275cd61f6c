/** The result for the caller of a leased attempt. */
import type { InProgressRecord } from "../../engine/record.ts";
import type { Result } from "../../operations/attempt.ts";
import type { AttemptEnd } from "../../stores/store.ts";
import type { Concluded } from "./leased-work.ts";

/** The end of the attempt is confirmed: the owner's own result is the truth. */
export function resultOfOwner(
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
