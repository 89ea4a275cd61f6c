import type { RecordState } from "./record.ts";

/** Who moves a record. */
export type Actor =
  | "request"
  | "owner"
  | "worker"
  | "record-cleaner"
  | "lease-rescuer"
  | "outcome-reconciler"
  | "operator";

export interface Edge {
  readonly from: RecordState | "none";
  readonly event: string;
  readonly by: readonly Actor[];
  readonly to: RecordState | "none";
  readonly note?: string;
}

/**
 * Every edge of the state machine; no other exists. `none` is the absence of a record: a record past its
 * `forgetAt`, or an expired one that its operation lets run again, counts as `none`.
 */
export const edges = [
  {
    from: "none",
    event: "commit",
    by: ["request"],
    to: "completed",
    note: "transaction: written once, by the commit",
  },
  { from: "retryable", event: "commit", by: ["request"], to: "completed", note: "transaction: same id" },
  { from: "none", event: "admit", by: ["request"], to: "in_progress", note: "lease: attempt 1, new id" },
  { from: "none", event: "accept", by: ["request"], to: "pending", note: "deferred" },
  {
    from: "none",
    event: "lose_transaction",
    by: ["request"],
    to: "unknown",
    note: "the handler ended admission's transaction itself: never run again on a guess",
  },
  {
    from: "retryable",
    event: "lose_transaction",
    by: ["request"],
    to: "unknown",
    note: "same id: the handler ended admission's transaction itself, or the record has steps that a transaction would do again",
  },
  { from: "pending", event: "claim", by: ["worker"], to: "in_progress" },
  {
    from: "pending",
    event: "abandon",
    by: ["record-cleaner"],
    to: "failed",
    note: "past expiry: 408 timeout",
  },
  { from: "in_progress", event: "complete", by: ["owner"], to: "completed", note: "fence holds" },
  {
    from: "in_progress",
    event: "fail",
    by: ["owner"],
    to: "failed",
    note: "fence holds: refused for good; deferred: attempts spent",
  },
  {
    from: "in_progress",
    event: "release",
    by: ["owner"],
    to: "none",
    note: "proven not executed, nothing recorded",
  },
  {
    from: "in_progress",
    event: "retry_later",
    by: ["owner"],
    to: "retryable",
    note: "proven not executed, steps recorded",
  },
  { from: "in_progress", event: "doubt", by: ["owner"], to: "unknown", note: "outcome in doubt" },
  {
    from: "in_progress",
    event: "give_up",
    by: ["request", "lease-rescuer"],
    to: "unknown",
    note: "lease ended under `reconcile`, or attempts spent, or past expiry",
  },
  {
    from: "in_progress",
    event: "take_over",
    by: ["request", "worker"],
    to: "in_progress",
    note: "lease ended under `resume` or `rerun`: attempt + 1, new token",
  },
  {
    from: "in_progress",
    event: "advance",
    by: ["owner"],
    to: "in_progress",
    note: "a phase or call was recorded; fence holds",
  },
  {
    from: "retryable",
    event: "take_over",
    by: ["request", "worker"],
    to: "in_progress",
    note: "exactly one of N; resumes after the finished steps",
  },
  {
    from: "retryable",
    event: "deliver_answer",
    by: ["worker"],
    to: "completed",
    note: "deferred: the delivery that its answer waited for has given it",
  },
  {
    from: "unknown",
    event: "settle_completed",
    by: ["operator", "outcome-reconciler", "owner"],
    to: "completed",
    note: "the whole operation happened; an owner only while its fence is the last",
  },
  {
    from: "unknown",
    event: "settle_call",
    by: ["operator", "outcome-reconciler", "owner"],
    to: "retryable",
    note: "one call happened: its result is stored",
  },
  {
    from: "unknown",
    event: "settle_failed",
    by: ["operator", "outcome-reconciler"],
    to: "failed",
    note: "final failure, or closed downstream",
  },
  {
    from: "unknown",
    event: "settle_not_executed",
    by: ["operator", "outcome-reconciler"],
    to: "retryable",
    note: "with proof",
  },
  { from: "completed", event: "purge", by: ["record-cleaner"], to: "expired", note: "past expiresAt" },
  { from: "failed", event: "purge", by: ["record-cleaner"], to: "expired", note: "past expiresAt" },
  { from: "expired", event: "forget", by: ["record-cleaner"], to: "none", note: "past forgetAt" },
] as const satisfies readonly Edge[];

export type RecordEvent = (typeof edges)[number]["event"];
