/** Events of a lease: how its record was taken, and how an attempt ended without an answer. */
import type { InProgressRecord } from "../../engine/record.ts";
import type { AttemptEnd } from "../../stores/store.ts";
import type { Runtime } from "../runtime.ts";

/** The state that a record was taken from. Null: already reported. */
export type TakenFrom = "none" | "pending" | "in_progress" | "retryable" | null;

/** Reports an admission once: after a lost reply, the same admission is found again by its token. */
export function reportAdmission<Tx>(
  { runtime, by }: { readonly runtime: Runtime<Tx>; readonly by: "request" | "worker" },
  { record, from }: { readonly record: InProgressRecord; readonly from: TakenFrom },
  announced: Set<string>,
): void {
  const { attempt, token } = record.fence;
  if (from === null || announced.has(token)) return;
  announced.add(token);
  const about = { ...runtime.about(record.operation, record), recordId: record.id };
  if (from === "none") runtime.emit({ ...about, type: "reserved", by: "lease" });
  else if (from === "pending") runtime.emit({ ...about, type: "claimed", attempt });
  else runtime.emit({ ...about, type: "taken_over", attempt, from, by });
}

/** Reports the ends without an answer; those with one are reported as `executed`. */
export function reportEnd<Tx>(runtime: Runtime<Tx>, record: InProgressRecord, end: AttemptEnd): void {
  const about = { ...runtime.about(record.operation, record), recordId: record.id };
  switch (end.event) {
    case "release":
      runtime.emit({ ...about, type: "released" });
      return;
    case "retry_later": {
      const { errorCode, resumeAfterMs } = end;
      runtime.emit({ ...about, type: "retryable", errorCode, resumeAfterMs });
      return;
    }
    case "doubt":
      runtime.emit({ ...about, type: "became_unknown", because: end.errorCode });
      return;
    case "complete":
    case "fail":
      return;
    default:
      end satisfies never;
  }
}
