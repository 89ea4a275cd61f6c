/**
 * Settling unknown records, and listing records. Every settlement is one atomic step with its audit row: both or neither.
 * Audit rows are in their own table; cleaning records never removes them, only `cleanAudit` does, by their age.
 */
import type {
  Guard,
  InProgressRecord,
  LatchkeyRecord,
  RecordKey,
  RecordState,
  RetryableRecord,
  UnknownRecord,
} from "../engine/record.ts";
import type { AuditNote } from "./audit-note.ts";
import type { EffectState } from "./outbox.ts";
import type { Retention } from "./retention.ts";

/**
 * Events are those of the edge table; the record must be `unknown`. A record that becomes `retryable` keeps its
 * `lastErrorCode`; `settle_completed` clears it.
 */
export type Settlement =
  | { readonly event: "settle_completed"; readonly answer: Uint8Array; readonly retention: Retention }
  | {
      readonly event: "settle_failed";
      readonly answer: Uint8Array;
      readonly retention: Retention;
      readonly errorCode: string;
    }
  /**
   * → `retryable`. Calls that are `started` become `not_executed` where `calls` is `never-happened`, and stay as they are
   * under `may-repeat` (the other service de-duplicates). With `reopen` the named call gets the next generation and this
   * downstream key instead, is `not_executed` with no sends, and keeps its input.
   */
  | {
      readonly event: "settle_not_executed";
      readonly calls: "never-happened" | "may-repeat";
      readonly reopen: ReopenedCall | null;
      /** How long until a worker may resume it; null: the next request resumes it. */
      readonly resumeAfterMs: number | null;
    }
  /** → `retryable`: one call has happened, with this result. */
  | {
      readonly event: "settle_call";
      readonly call: string;
      readonly generation: number;
      readonly result: Uint8Array;
      readonly resumeAfterMs: number | null;
    };

export interface ReopenedCall {
  readonly call: string;
  /** The generation that was closed. */
  readonly generation: number;
  /** For the next generation. */
  readonly downstreamKey: string;
}

export type { AuditNote };

export interface AuditEntry extends AuditNote {
  readonly at: number;
  readonly key: RecordKey;
  readonly recordId: string;
  /** The effect of the record that the decision is about; null if it is about the record itself. */
  readonly effectId: string | null;
  readonly event: string;
  /** The state of the record, of the effect, or of the dead letter, whose id is in place of the record's. `none`: of a tenant. */
  readonly from: RecordState | EffectState | "none";
  /** `none`: a dead letter was removed, or something was deleted with its tenant. */
  readonly to: RecordState | EffectState | "none";
}

/** Selects a part of the audit log. */
export interface AuditFilter {
  /** Null: of every tenant. */
  readonly tenant: string | null;
  readonly limit: number;
  /** The last row of the previous page; null: from the newest on. */
  readonly before: { readonly at: number; readonly id: string } | null;
}

/** An unknown record that this caller has claimed for one try. */
export interface ClaimedUnknown {
  readonly record: UnknownRecord;
  /** How often this life was claimed, this time included; a time as `retryable` does not reset the count. */
  readonly tries: number;
}

export interface RecordFilter {
  readonly state: RecordState;
  readonly tenant: string | null;
  readonly operation: string | null;
  readonly limit: number;
  /** The last record of the previous page. */
  readonly after: { readonly createdAt: number; readonly id: string } | null;
}

export interface SettlementSupport {
  /**
   * Settles the record. False if the guard did not hold, or (for a call) the call is not `started` in that generation;
   * nothing was written. A repetition with the same audit id returns true if the first call has been written.
   */
  settle(key: RecordKey, guard: Guard, settlement: Settlement, note: AuditNote): Promise<boolean>;

  /**
   * Moves the time for which a record waits to now, by the store's clock, with an audit row whose event is `forget` or
   * `retry`; the state stays. `completed`, `failed` and `expired`: their retention is over, so the key may run as new, and the
   * record-cleaner forgets them like others. `retryable`: a worker may resume it. `unknown`: its outcome is looked up again.
   * False, and nothing was written, for `pending` and `in_progress`, for a record that waits for no time in the future, and if
   * the guard did not hold; so of two callers at most one writes. A repetition with the same audit id returns true if the first
   * call has been written.
   */
  hasten(key: RecordKey, guard: Guard, note: AuditNote): Promise<boolean>;

  /**
   * At most `limit` unknown records of these operations whose `reconcileAfter` has come, oldest first. Each is claimed by
   * moving its `reconcileAfter` to `claimMs` from now, so that other workers do not claim it; rows that another transaction is
   * changing are skipped.
   */
  claimUnknowns(
    operations: readonly string[],
    limit: number,
    claimMs: number,
  ): Promise<readonly ClaimedUnknown[]>;

  /** Moves an unknown record's next try; null: it gets none, and waits for a person. False if the guard did not hold. */
  postpone(key: RecordKey, guard: Guard, afterMs: number | null): Promise<boolean>;

  /**
   * At most `limit` records of these operations that a worker may resume now: `in_progress` whose lease has ended under
   * `resume` with attempts left and before expiry, and `retryable` whose resume time has come. First those whose lease or
   * waiting ended first.
   */
  resumable(
    operations: readonly string[],
    limit: number,
  ): Promise<readonly (InProgressRecord | RetryableRecord)[]>;

  /** Records in one state, by `createdAt` and then `id`. */
  list(filter: RecordFilter): Promise<readonly LatchkeyRecord[]>;

  /** The settlements of this key and the decisions about its dead effects, oldest first, over all its lives. */
  audit(key: RecordKey): Promise<readonly AuditEntry[]>;
}
