/** The answer to a caller that asks for a record by its id. Pure: it depends on the record and the store's time alone. */
import type { Decision } from "../../engine/decide.ts";
import type { LatchkeyRecord } from "../../engine/record.ts";

type Running = Extract<Decision, { readonly kind: "in_progress" }>;

export type RecordStatus =
  /** There is no such record, or it is another caller's. */
  | { readonly kind: "absent" }
  /** It will finish without another request. */
  | {
      readonly kind: "waiting";
      readonly state: "pending" | "running";
      readonly recordId: string;
      readonly decision: Running;
    }
  /** Its last attempt has ended early, and only the same request, sent again, continues it. */
  | { readonly kind: "stopped"; readonly recordId: string; readonly decision: Running }
  | {
      readonly kind: "decided";
      readonly decision: Extract<Decision, { readonly kind: "replay" | "timeout" | "unknown" | "expired" }>;
    };

const absent: RecordStatus = { kind: "absent" };

/**
 * Checks expiry itself, as admission does, so the result does not depend on the record cleaner.
 *
 * @param resumes whether workers resume attempts that ended early
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
      // Workers no longer claim it.
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
