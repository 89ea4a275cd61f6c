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
    note: "transaction: the handler's commit writes the record",
  },
  { from: "retryable", event: "commit", by: ["request"], to: "completed", note: "transaction: keeps the id" },
  { from: "none", event: "admit", by: ["request"], to: "in_progress", note: "lease: attempt 1, a new id" },
  { from: "none", event: "accept", by: ["request"], to: "pending", note: "deferred: a worker will run it" },
  {
    from: "none",
    event: "lose_transaction",
    by: ["request"],
    to: "unknown",
    note: "the handler ended the transaction of admission itself, so what it wrote is not known",
  },
  {
    from: "retryable",
    event: "lose_transaction",
    by: ["request"],
    to: "unknown",
    note: "as above, or the record has steps that a transaction would do again; keeps the id",
  },
  { from: "pending", event: "claim", by: ["worker"], to: "in_progress" },
  {
    from: "pending",
    event: "abandon",
    by: ["record-cleaner"],
    to: "failed",
    note: "past `expiresAt`, never started: 408 `timeout`",
  },
  { from: "in_progress", event: "complete", by: ["owner"], to: "completed", note: "its fence holds" },
  {
    from: "in_progress",
    event: "fail",
    by: ["owner"],
    to: "failed",
    note: "its fence holds: refused for good, or (deferred) out of attempts",
  },
  {
    from: "in_progress",
    event: "release",
    by: ["owner"],
    to: "none",
    note: "proven not executed, and no step is recorded",
  },
  {
    from: "in_progress",
    event: "retry_later",
    by: ["owner"],
    to: "retryable",
    note: "proven not executed, and steps are recorded",
  },
  { from: "in_progress", event: "doubt", by: ["owner"], to: "unknown", note: "its outcome is in doubt" },
  {
    from: "in_progress",
    event: "give_up",
    by: ["request", "lease-rescuer"],
    to: "unknown",
    note: "the lease ended under `reconcile`, or no attempts are left, or past `expiresAt`",
  },
  {
    from: "in_progress",
    event: "take_over",
    by: ["request", "worker"],
    to: "in_progress",
    note: "the lease ended under `resume` or `rerun`: next attempt, new token",
  },
  {
    from: "in_progress",
    event: "advance",
    by: ["owner"],
    to: "in_progress",
    note: "its fence holds: a phase or call was recorded",
  },
  {
    from: "retryable",
    event: "take_over",
    by: ["request", "worker"],
    to: "in_progress",
    note: "one of any number of callers wins, and resumes after the finished steps",
  },
  {
    from: "retryable",
    event: "deliver_answer",
    by: ["worker"],
    to: "completed",
    note: "deferred: the delivery on which its answer depended has given that answer",
  },
  {
    from: "unknown",
    event: "settle_completed",
    by: ["operator", "outcome-reconciler", "owner"],
    to: "completed",
    note: "the whole operation happened; an owner may say so only until another attempt has begun",
  },
  {
    from: "unknown",
    event: "settle_call",
    by: ["operator", "outcome-reconciler", "owner"],
    to: "retryable",
    note: "one call happened; its result is stored",
  },
  {
    from: "unknown",
    event: "settle_failed",
    by: ["operator", "outcome-reconciler"],
    to: "failed",
    note: "the other service refused for good, or closed the call",
  },
  {
    from: "unknown",
    event: "settle_not_executed",
    by: ["operator", "outcome-reconciler"],
    to: "retryable",
    note: "there is proof that nothing happened",
  },
  { from: "completed", event: "purge", by: ["record-cleaner"], to: "expired", note: "past `expiresAt`" },
  { from: "failed", event: "purge", by: ["record-cleaner"], to: "expired", note: "past `expiresAt`" },
  { from: "expired", event: "forget", by: ["record-cleaner"], to: "none", note: "past `forgetAt`" },
] as const satisfies readonly Edge[];

export type RecordEvent = (typeof edges)[number]["event"];
