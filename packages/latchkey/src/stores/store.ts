/**
 * The store contract: where records live. It is the one port between the protocol and a database.
 *
 * - Every method that changes something is one atomic step, guarded by the exact version of the record it was decided
 *   on. `null` or `false` means "the guard did not hold, nothing was written": an answer, not an error. The caller
 *   reads and decides again.
 * - All times are milliseconds since the Unix epoch on the store's own clock; callers pass durations (`…Ms`), never
 *   points in time.
 * - A call that fails throws a `StoreError` whose `certainty` is what is known about its effect. A call may be repeated after
 *   any failure, because its guard makes the second time harmless.
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
  /** How soon a duplicate finds out that the key is running: at once, after a bounded wait, or only at commit. */
  readonly inProgress: "immediate" | "bounded" | "at-commit";
  /** Whether an acknowledged record can be lost by a crash or failover of the store. */
  readonly durability: "synced" | "may-lose-acknowledged";
  /** Whether the store receives a COMMIT's tag and warnings, so that a cancelled synchronous wait is noticed. */
  readonly commitNotice: boolean;
  /** Whether attempt numbers are never issued twice, also after a failover. */
  readonly fenceSurvivesFailover: boolean;
  /** Reads on which a decision rests go to the primary. */
  readonly statusReads: "primary";
}

/**
 * Finished records that can be read without a call of the store. A finished record does not change until its answer expires,
 * so a copy of one may be served until then.
 */
export interface FinishedLookup {
  /**
   * A finished record, with approximately the store's time. Null if there is no copy, or none was available quickly. Never rejects.
   */
  look(key: RecordKey): Promise<Reading | null>;
}

/** How an attempt holds its record. */
export interface LeaseTerms {
  /** How long from now the attempt owns the record without renewing. */
  readonly leaseMs: number;
  /** Stored with the lease, so that the lease rescuer does not need the operation's definition. */
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
  /** `resumeAfterMs`: how long until a worker may resume it; null: the next request resumes it. */
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
  /** Why this store, as it was made, cannot run operations under a lease; completes "execution … ". Absent: it can. */
  readonly leasesRefused?: string;
  /**
   * True for a store that consists of several, each with a circuit breaker of its own, because one that is down does not mean
   * that the others are. Absent: one circuit breaker serves all requests.
   */
  readonly ownCircuits?: boolean;
  /** Null exactly when `capabilities.transactions` is false. */
  readonly transactions: TransactionSupport<Tx> | null;
  /** Inputs and steps of operations that own their work. */
  readonly journal: JournalSupport;
  /** Settling and listing what is unknown. */
  readonly settlement: SettlementSupport;
  /** The effects that were enqueued in transactions. Null exactly when `transactions` is null. */
  readonly outbox: OutboxSupport | null;
  /** Tallies and dead letters of brokers' messages. Null if no inbox can be built on this store. */
  readonly messages: MessageSupport | null;
  /** Null if processes cannot notify each other. */
  readonly hints: HintSupport | null;
  /** Keeps settlements that arrive before the record is `unknown`; absent: none are kept. */
  readonly early?: EarlySettlements;
  /** True: the traces of lives and of effects are kept, so that later spans can link to them. Absent: they are dropped. */
  readonly keepsTraces?: true;
  /** Absent: summaries of requests are not kept. */
  readonly summaries?: Summaries;
  /** Absent: facts are not kept. */
  readonly facts?: FactSupport;
  /** Lets records be archived before they are forgotten. Absent: they cannot be archived. */
  readonly archival?: Archival;
  /** Counts and removes the data of one tenant. Absent: that has to be done in the database itself. */
  readonly tenantData?: TenantData;
  /**
   * Counts the backlog, up to `countMax` of each kind, in time that does not grow with the number of records. Absent: the
   * backlog is counted by listing.
   */
  overview?(countMax: number): Promise<Overview>;
  /**
   * Counts the records of these tenants, each up to `countMax`, in time that does not grow with the number of records. Records
   * that are due to be forgotten do not count if the limit is reached; below it they may. Absent: they cannot be counted.
   */
  countActiveKeys?(tenants: readonly string[], countMax: number): Promise<readonly ActiveKeys[]>;
  /** Requests look here first for finished records; absent: they do not. */
  readonly finished?: FinishedLookup;

  /** Releases what the store itself holds of the user's client, such as a connection; it never closes the client. */
  close?(): Promise<void>;
  /**
   * Checks that the store can be used as it is (schema present and of this version). Changes nothing.
   * @throws {LatchkeyError} `schema-invalid`
   */
  verify(): Promise<void>;

  /**
   * Checks the server, the role and the settings, and changes nothing. Never rejects, because an unreachable store is a
   * finding, too. Absent: there is nothing to check.
   */
  examine?(request: ExamineRequest): Promise<readonly Finding[]>;

  /**
   * The current record, and the store's time. Never waits for a running attempt. A finished or pending record may be reported
   * to a client, because a `synced` store has made sure that it stays.
   *
   * @throws {StoreError} also when the store could not make sure of that
   */
  read(key: RecordKey): Promise<Reading>;

  /**
   * As `read`, for an addressable life of this tenant, by its id. Finds no life that another has replaced. With null for the
   * tenant it finds any life: for operators and for webhooks of the other service, never for a tenant's request.
   */
  readById(tenant: string | null, id: string): Promise<Reading>;

  /**
   * Edge `admit`: starts attempt 1 of a new life. With `replaces` the named row is overwritten (a forgotten or expired
   * one); without, no row may exist. Null if another request was faster.
   */
  create(life: NewLife, replaces: Guard | null, terms: LeaseTerms): Promise<InProgressRecord | null>;

  /** Edge `accept`: a `pending` record that a worker claims later. Null as in `create`. */
  accept(life: NewLife, replaces: Guard | null, expiresAfterMs: number): Promise<PendingRecord | null>;

  /**
   * Edge `claim`: starts attempt 1 of `pending` records, of each operation at most as many as it has tokens, oldest first.
   * Past their expiry they are left to the record-cleaner; rows that another transaction is changing are skipped. A lost reply
   * leaves attempts without a worker, until their leases end.
   */
  claimPending(wants: readonly PendingWant[]): Promise<readonly InProgressRecord[]>;

  /**
   * Edge `take_over`, from `retryable`, or from `in_progress` whose lease has ended by the store's clock at the moment
   * of the write: attempt + 1 under `token`. The fingerprint is part of the guard. Null if the guard did not hold, or
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
   * Extends a lease to `leaseMs` from now. False if it has ended or belongs to another owner. Never waits for a phase, for
   * another tenant's row, or for a free connection of the pool.
   */
  renew(key: RecordKey, id: string, fence: Fence, leaseMs: number): Promise<boolean>;

  /** Ends an attempt. Guarded by (id, `in_progress`, fence); null if the owner has lost. */
  end(
    key: RecordKey,
    id: string,
    fence: Fence,
    end: AttemptEnd,
  ): Promise<{ readonly expiresAt: number | null } | null>;

  /**
   * Edge `give_up`: settles an attempt as `unknown` whose lease has ended by the store's clock at the moment of the
   * write. False if the guard did not hold.
   */
  giveUp(key: RecordKey, guard: Guard, errorCode: string, reconcileAfterMs: number | null): Promise<boolean>;

  /**
   * Edge `lose_transaction`: writes an `unknown` record for a life whose transaction was ended by its handler, also if the
   * record that it was to replace is gone by now. Null if another record exists already.
   */
  recordLostTransaction(
    life: NewLife,
    replaces: Guard | null,
    errorCode: string,
  ): Promise<UnknownRecord | null>;

  /**
   * At most `limit` records whose lease has ended and that may not be taken over: policy `reconcile`, attempts spent, or
   * past expiry. Those for which this has been true the longest come first.
   */
  endedLeases(limit: number): Promise<readonly EndedLease[]>;

  /**
   * Takes the record-cleaner's edges on at most `limit` records each: `abandon`, `purge`, `forget`; and removes at most
   * `limit` delivered effects, and tallies of messages, whose time is over. Rows that another transaction is changing are left
   * for the next time. Never changes an `in_progress`, `retryable` or `unknown` record, and forgets no record with an undelivered
   * effect.
   */
  clean(limit: number): Promise<CleanReport>;

  /** Removes at most `limit` audit rows that are older than `keepMs`, and returns how many. Absent: they stay. */
  cleanAudit?(keepMs: number, limit: number): Promise<number>;

  /** Audit rows of all keys, newest first, by `at` and then `id`. Absent: they can only be read by key. */
  listAudit?(filter: AuditFilter): Promise<readonly AuditEntry[]>;
}

export interface EndedLease {
  readonly record: InProgressRecord;
  readonly leaseEnd: LeaseEnd;
  readonly attemptsMax: number;
}
