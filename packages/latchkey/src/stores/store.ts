/**
 * The store contract: where records live. It is the one port between the protocol and a database.
 *
 * - Every method that changes something is one atomic step, guarded by the exact version of the record it was decided
 *   on. `null` or `false` means "the guard did not hold, nothing was written": an answer, not an error. The caller
 *   reads and decides again.
 * - All times are milliseconds since the Unix epoch on the store's own clock; callers pass durations (`…Ms`), never
 *   points in time.
 * - A call that fails throws a `StoreError` whose `certainty` says what is known. A call may be repeated after any
 *   failure: its guard makes the second time harmless.
 * - A store does not decide: which edge to take comes from `engine/decide.ts`.
 */
import type {
  Fence,
  Fingerprint,
  Guard,
  InProgressRecord,
  LeaseEnd,
  PendingRecord,
  RecordKey,
  UnknownRecord,
} from "../engine/record.ts";
import type { ActiveKeys } from "./active-keys.ts";
import type { Archival, CleanReport } from "./archival.ts";
import type { EarlySettlements } from "./early.ts";
import type { ExamineRequest, Finding } from "./examination.ts";
import type { FactSupport } from "./facts.ts";
import type { HintSupport } from "./hints.ts";
import type { JournalSupport } from "./journal.ts";
import type { NewLife, Reading, Summaries } from "./life.ts";
import type { MessageSupport } from "./messages.ts";
import type { OutboxSupport } from "./outbox.ts";
import type { Overview } from "./overview.ts";
import type { Retention } from "./retention.ts";
import type { AuditEntry, AuditFilter, SettlementSupport } from "./settlement.ts";
import type { TenantData } from "./tenant-data.ts";
import type { TransactionSupport } from "./transactions.ts";

export type { CleanReport, Retention };

export interface StoreCapabilities {
  /** Business writes can commit together with the record. */
  readonly transactions: boolean;
  /** Whether a handler can start before its transaction is open, for `admission: "optimistic"`. Default false. */
  readonly optimisticAdmission?: boolean;
  /** How soon a duplicate learns that the key is running: at once, after a bounded wait, or only at commit. */
  readonly inProgress: "immediate" | "bounded" | "at-commit";
  /** Whether an acknowledged record can be lost by a crash or failover of the store. */
  readonly durability: "synced" | "may-lose-acknowledged";
  /** Whether a COMMIT's tag and warnings are seen, so that a cancelled synchronous wait is noticed. */
  readonly commitNotice: boolean;
  /** Whether attempt numbers are never issued twice, also after a failover. */
  readonly fenceSurvivesFailover: boolean;
  /** Reads that decide go to the primary. */
  readonly statusReads: "primary";
}

/**
 * Finished records that can be had without asking the store. A finished record changes no more until its answer's time is
 * over, so a copy of one may be served until then.
 */
export interface FinishedLookup {
  /**
   * A finished record, with about the store's time. Null: there is no copy, or none was to be had quickly. Never rejects.
   */
  look(key: RecordKey): Promise<Reading | null>;
}

/** How an attempt holds its record. */
export interface LeaseTerms {
  /** How long from now the attempt owns the record without renewing. */
  readonly leaseMs: number;
  /** Kept with the lease, so that a rescuer needs no operation's definition. */
  readonly leaseEnd: LeaseEnd;
  readonly attemptsMax: number;
  /** How long after the life began a dead attempt may still be taken over. */
  readonly abandonAfterMs: number;
}

/** How an attempt ends. Events are those of the edge table. */
export type AttemptEnd =
  | {
      readonly event: "complete" | "fail";
      readonly answer: Uint8Array;
      readonly retention: Retention;
      readonly errorCode: string | null;
    }
  | { readonly event: "release" }
  /** `resumeAfterMs`: how long until a worker may resume it; null: the next request does. */
  | { readonly event: "retry_later"; readonly errorCode: string; readonly resumeAfterMs: number | null }
  | { readonly event: "doubt"; readonly errorCode: string; readonly reconcileAfterMs: number | null };

/** Deferred work that a worker has capacity for. */
export interface PendingWant {
  readonly operation: string;
  /** One for each record that may be claimed. */
  readonly tokens: readonly string[];
  readonly terms: LeaseTerms;
}

export interface Store<Tx = never> {
  readonly name: string;
  readonly capabilities: StoreCapabilities;
  /** Why no operation under a lease can run on this store as it was made, after "execution … ". Absent: it can. */
  readonly leasesRefused?: string;
  /**
   * True for a store that is several, each with a circuit breaker of its own: one that is down says nothing about the others.
   * Absent: one circuit breaker serves all requests.
   */
  readonly ownCircuits?: boolean;
  /** Null exactly when `capabilities.transactions` is false. */
  readonly transactions: TransactionSupport<Tx> | null;
  /** Inputs and steps of operations that own their work. */
  readonly journal: JournalSupport;
  /** Settling and listing what is unknown. */
  readonly settlement: SettlementSupport;
  /** What was enqueued in transactions. Null exactly when there are none. */
  readonly outbox: OutboxSupport | null;
  /** What is known about messages of brokers. Null where no inbox can be built on this store. */
  readonly messages: MessageSupport | null;
  /** Null where processes cannot tell each other anything. */
  readonly hints: HintSupport | null;
  /** Keeps what was said of a record before it was `unknown`; absent: nothing is kept. */
  readonly early?: EarlySettlements;
  /** True: the traces of lives and of effects are kept, so that later spans can link to them. Absent: they are dropped. */
  readonly keepsTraces?: true;
  /** Absent: summaries of requests are not kept. */
  readonly summaries?: Summaries;
  /** Absent: facts are not kept. */
  readonly facts?: FactSupport;
  /** Lets records be put elsewhere before they are forgotten. Absent: nothing can be archived. */
  readonly archival?: Archival;
  /** Counts and removes what is kept of one tenant. Absent: that has to be done in the store itself. */
  readonly tenantData?: TenantData;
  /**
   * Counts what waits, up to `countMax` of each kind, in time that does not grow with the number of records. Absent: it is
   * counted by listing.
   */
  overview?(countMax: number): Promise<Overview>;
  /**
   * Counts the records of these tenants, each up to `countMax`, in time that does not grow with the number of records. Records
   * that are due to be forgotten do not count where the limit is reached; below it they may. Absent: they cannot be counted.
   */
  countActiveKeys?(tenants: readonly string[], countMax: number): Promise<readonly ActiveKeys[]>;
  /** Where requests look for finished records first; absent: nowhere. */
  readonly finished?: FinishedLookup;

  /** Gives back what the store itself holds of the user's client, such as a connection; it never closes the client. */
  close?(): Promise<void>;
  /**
   * Checks that the store can be used as it is (schema present and of this version). Changes nothing.
   * @throws {LatchkeyError} `schema-invalid`
   */
  verify(): Promise<void>;

  /**
   * Looks for what is wrong with the server, the role and the settings, and changes nothing. Never rejects: a store that
   * cannot be reached is a finding. Absent: there is nothing to look at.
   */
  examine?(request: ExamineRequest): Promise<readonly Finding[]>;

  /**
   * The record as it is, and the store's time. Never blocks behind a running attempt. What is finished or pending may be
   * told: a store that is `synced` has made sure that it stays.
   *
   * @throws {StoreError} also when it could not
   */
  read(key: RecordKey): Promise<Reading>;

  /**
   * As `read`, for an addressable life of this tenant, by its id. Of a life that another has replaced: nothing. With null
   * for the tenant it finds any life: for operators and for webhooks of the other side, never for a tenant's request.
   */
  readById(tenant: string | null, id: string): Promise<Reading>;

  /**
   * Edge `admit`: starts attempt 1 of a new life. With `replaces` the named row is overwritten (a forgotten or expired
   * one); without, no row may exist. Null: another request was faster.
   */
  create(life: NewLife, replaces: Guard | null, terms: LeaseTerms): Promise<InProgressRecord | null>;

  /** Edge `accept`: a `pending` record that a worker claims later. Null as in `create`. */
  accept(life: NewLife, replaces: Guard | null, expiresAfterMs: number): Promise<PendingRecord | null>;

  /**
   * Edge `claim`: starts attempt 1 of `pending` records, of each operation at most as many as it has tokens, oldest first.
   * Past their expiry they are left to the record-cleaner; rows that another transaction is changing are skipped. A reply that is lost
   * leaves attempts without a worker: their leases end.
   */
  claimPending(wants: readonly PendingWant[]): Promise<readonly InProgressRecord[]>;

  /**
   * Edge `take_over`, from `retryable`, or from `in_progress` whose lease has ended by the store's clock at the moment
   * of the write: attempt + 1 under `token`. The fingerprint is part of the guard. Null: the guard did not hold, or
   * another transaction is changing the record right now.
   */
  takeOver(
    key: RecordKey,
    guard: Guard,
    fingerprint: Fingerprint,
    token: string,
    terms: LeaseTerms,
  ): Promise<InProgressRecord | null>;

  /**
   * Extends a lease to `leaseMs` from now. False: it has ended or belongs to another owner. Never waits for a phase or
   * for another tenant's row, nor for a free pool connection.
   */
  renew(key: RecordKey, id: string, fence: Fence, leaseMs: number): Promise<boolean>;

  /** Ends an attempt. Guarded by (id, `in_progress`, fence); null: the owner has lost. */
  end(
    key: RecordKey,
    id: string,
    fence: Fence,
    end: AttemptEnd,
  ): Promise<{ readonly expiresAt: number | null } | null>;

  /**
   * Edge `give_up`: settles an attempt as `unknown` whose lease has ended by the store's clock at the moment of the
   * write. False: the guard did not hold.
   */
  giveUp(key: RecordKey, guard: Guard, errorCode: string, reconcileAfterMs: number | null): Promise<boolean>;

  /**
   * Edge `lose_transaction`: writes an `unknown` record for a life whose transaction was ended by its handler, also where
   * the record that it was to replace is gone by now. Null: another record exists already.
   */
  recordLostTransaction(
    life: NewLife,
    replaces: Guard | null,
    errorCode: string,
  ): Promise<UnknownRecord | null>;

  /**
   * At most `limit` records whose lease has ended and that may not be taken over: policy `reconcile`, attempts spent, or
   * past expiry. First those for which that has been so for longest.
   */
  endedLeases(limit: number): Promise<readonly EndedLease[]>;

  /**
   * Takes the record-cleaner's edges on at most `limit` records each: `abandon`, `purge`, `forget`; and removes at most
   * `limit` delivered effects, and tallies of messages, whose time is over. Rows that another transaction is changing are left for the next time. Never touches
   * `in_progress`, `retryable` or `unknown`, and forgets no record with an effect that is not delivered.
   */
  clean(limit: number): Promise<CleanReport>;

  /** Removes at most `limit` audit rows that are older than this, and says how many. Absent: they stay. */
  cleanAudit?(keepMs: number, limit: number): Promise<number>;

  /** Audit rows of all keys, newest first, by `at` and then `id`. Absent: they are kept by key alone. */
  listAudit?(filter: AuditFilter): Promise<readonly AuditEntry[]>;
}

export interface EndedLease {
  readonly record: InProgressRecord;
  readonly leaseEnd: LeaseEnd;
  readonly attemptsMax: number;
}
