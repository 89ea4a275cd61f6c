/**
 * Settling what is unknown, and showing it. Every settlement is one atomic step with its audit row: both or neither.
 * Audit rows live in their own table; cleaning records never removes them, their age does (`cleanAudit`).
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
 * `lastErrorCode`; `settle_completed` leaves none.
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
   * under `may-repeat` (the other side de-duplicates). With `reopen` the named call gets the next generation and this
   * downstream key instead, is `not_executed` with no sends, and keeps its input.
   */
  | {
      readonly event: "settle_not_executed";
      readonly calls: "never-happened" | "may-repeat";
      readonly reopen: ReopenedCall | null;
      /** How long until a worker may resume it; null: the next request does. */
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
  /** For the generation after it. */
  readonly downstreamKey: string;
}

export type { AuditNote };

export interface AuditEntry extends AuditNote {
  readonly at: number;
  readonly key: RecordKey;
  readonly recordId: string;
  /** What was decided is about this effect of the record's; null: about the record itself. */
  readonly effectId: string | null;
  readonly event: string;
  /** States of the record, of the effect, or of the dead letter, whose id is in the record's place. `none`: of a tenant. */
  readonly from: RecordState | EffectState | "none";
  /** `none`: a dead letter that was taken away, or what went with its tenant. */
  readonly to: RecordState | EffectState | "none";
}

/** Which part of the audit log. */
export interface AuditFilter {
  /** Null: of every tenant. */
  readonly tenant: string | null;
  readonly limit: number;
  /** The last row of the page before; null: from the newest on. */
  readonly before: { readonly at: number; readonly id: string } | null;
}

/** An unknown record that this caller has taken for one try. */
export interface ClaimedUnknown {
  readonly record: UnknownRecord;
  /** How often this life was claimed, this time included; going on as `retryable` does not start it again. */
  readonly tries: number;
}

export interface RecordFilter {
  readonly state: RecordState;
  readonly tenant: string | null;
  readonly operation: string | null;
  readonly limit: number;
  /** The last record of the page before. */
  readonly after: { readonly createdAt: number; readonly id: string } | null;
}

export interface SettlementSupport {
  /**
   * Settles. False: the guard did not hold, or (for a call) the call is not `started` in that generation; nothing was
   * written. A repetition with the same audit id answers true when the first has been written.
   */
  settle(key: RecordKey, guard: Guard, settlement: Settlement, note: AuditNote): Promise<boolean>;

  /**
   * Lets what a record waits for be now, by the store's clock, with an audit row whose event is `forget` or `retry`; the state
   * stays. `completed`, `failed` and `expired`: their time is over, so the key may run as new, and the record-cleaner forgets
   * them as it forgets others. `retryable`: a worker may resume it. `unknown`: its outcome is looked up again. Of `pending` and
   * `in_progress`, of what waits for nothing that is still to come, and where the guard did not hold: false, nothing was
   * written; so of two callers at most one writes. A repetition with the same audit id answers
   * true when the first has been written.
   */
  hasten(key: RecordKey, guard: Guard, note: AuditNote): Promise<boolean>;

  /**
   * At most `limit` unknown records of these operations whose `reconcileAfter` has come, oldest first. Each is taken by
   * moving its `reconcileAfter` to `claimMs` from now, so that other workers leave it alone; rows that another transaction is changing
   * are skipped.
   */
  claimUnknowns(
    operations: readonly string[],
    limit: number,
    claimMs: number,
  ): Promise<readonly ClaimedUnknown[]>;

  /** Moves an unknown record's next try; null: none, it waits for a person. False: the guard did not hold. */
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

  /** What was settled on this key, and decided about its dead effects, oldest first, over all its lives. */
  audit(key: RecordKey): Promise<readonly AuditEntry[]>;
}
