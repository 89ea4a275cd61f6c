/** What a caller that asks for a record by its id is answered. Pure: everything is in the record and the store's time. */
import type { Decision } from "../../engine/decide.ts";
import type { LatchkeyRecord } from "../../engine/record.ts";

type Running = Extract<Decision, { readonly kind: "in_progress" }>;

export type RecordStatus =
  /** There is none, or none of this caller's. */
  | { readonly kind: "absent" }
  /** Its answer will come without the caller. */
  | {
      readonly kind: "waiting";
      readonly state: "pending" | "running";
      readonly recordId: string;
      readonly decision: Running;
    }
  /** Its last attempt has ended, and only the request itself, sent again, goes on with it. */
  | { readonly kind: "stopped"; readonly recordId: string; readonly decision: Running }
  | {
      readonly kind: "decided";
      readonly decision: Extract<Decision, { readonly kind: "replay" | "timeout" | "unknown" | "expired" }>;
    };

const absent: RecordStatus = { kind: "absent" };

/**
 * Expiry is judged here, as in admission, whether the record-cleaner has run or not.
 *
 * @param resumes whether workers go on with attempts that have ended early
 */
export function statusOf(
  record: LatchkeyRecord | null,
  principal: string | null,
  now: number,
  resumes: boolean,
): RecordStatus {
  if (record === null || record.principal !== principal) return absent;
  const recordId = record.id;
  switch (record.state) {
    case "pending":
      // No worker claims it any more.
      if (now >= record.expiresAt) return { kind: "decided", decision: { kind: "timeout", recordId } };
      return { kind: "waiting", state: "pending", recordId, decision: runs(record) };
    case "in_progress":
      return { kind: "waiting", state: "running", recordId, decision: runs(record) };
    case "retryable":
      return resumes
        ? { kind: "waiting", state: "pending", recordId, decision: runs(record) }
        : { kind: "stopped", recordId, decision: runs(record) };
    case "unknown": {
      const { reconcileAfter } = record;
      return { kind: "decided", decision: { kind: "unknown", recordId, reconcileAfter } };
    }
    case "completed":
    case "failed":
      if (now >= record.forgetAt) return absent;
      return { kind: "decided", decision: now >= record.expiresAt ? expired : { kind: "replay", record } };
    case "expired":
      return now >= record.forgetAt ? absent : { kind: "decided", decision: expired };
    default:
      return record satisfies never;
  }
}

const expired = { kind: "expired" } as const;

function runs({ id, createdAt }: LatchkeyRecord): Running {
  return { kind: "in_progress", recordId: id, createdAt, leaseEndsAt: null };
}
