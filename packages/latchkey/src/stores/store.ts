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
  LatchkeyRecord,
  LeaseEnd,
  PendingRecord,
  RecordKey,
  UnknownRecord,
} from "../engine/record.ts";
import type { HintSupport } from "./hints.ts";
import type { JournalSupport, Owner } from "./journal.ts";
import type { MessageSupport } from "./messages.ts";
import type { EffectClaim, NewEffect, OutboxSupport } from "./outbox.ts";
import type { Retention } from "./retention.ts";
import type { SettlementSupport } from "./settlement.ts";

export type { Retention };

export interface StoreCapabilities {
  /** Business writes can commit together with the record. */
  readonly transactions: boolean;
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

/** A record and the store's time, taken together. */
export interface Reading {
  readonly record: LatchkeyRecord | null;
  readonly now: number;
}

/**
 * Finished records that can be had without asking the store. A finished record changes no more until its answer's time is
 * over, so a copy of one may be told until then.
 */
export interface FinishedLookup {
  /**
   * A finished record, with about the store's time. Null: there is no copy, or none was to be had quickly. Never rejects.
   */
  look(key: RecordKey): Promise<Reading | null>;
}

/** A new life of a key. */
export interface NewLife extends RecordKey {
  readonly id: string;
  readonly operation: string;
  readonly fingerprint: Fingerprint;
  readonly principal: string | null;
  readonly fence: Fence;
  /** What the operation's work is resumed with, as the codec stored it; absent where an operation does not own its work. */
  readonly input?: Uint8Array;
  /**
   * Whether `readById` finds it, for a status resource. Default false. Not of one that a transaction begins and completes at
   * once: nobody was told its id before.
   */
  readonly addressable?: boolean;
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

export interface CleanReport {
  /** Abandoned `pending` records that became `failed`. */
  readonly abandoned: number;
  /** Answers purged. */
  readonly purged: number;
  /** Keys forgotten. */
  readonly forgotten: number;
  /** Delivered effects removed. */
  readonly effects: number;
  /** Tallies of messages removed. */
  readonly messages: number;
}

/** Deferred work that somebody has room for. */
export interface PendingWant {
  readonly operation: string;
  /** One for each record that may be claimed. */
  readonly tokens: readonly string[];
  readonly terms: LeaseTerms;
}

export interface Store<Tx = never> {
  readonly name: string;
  readonly capabilities: StoreCapabilities;
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
  /** Where requests look for finished records first; absent: nowhere. */
  readonly finished?: FinishedLookup;

  /**
   * Checks that the store can be used as it is (schema present and of this version). Changes nothing.
   * @throws {LatchkeyError} `schema-invalid`
   */
  verify(): Promise<void>;

  /**
   * The record as it is, and the store's time. Never blocks behind a running attempt. What is finished or pending may be
   * told: a store that is `synced` has made sure that it stays.
   *
   * @throws {StoreError} also when it could not
   */
  read(key: RecordKey): Promise<Reading>;

  /** As `read`, for an addressable life of this tenant, by its id. Of a life that another has replaced: nothing. */
  readById(tenant: string, id: string): Promise<Reading>;

  /**
   * Edge `admit`: starts attempt 1 of a new life. With `replaces` the named row is overwritten (a forgotten or expired
   * one); without, no row may exist. Null: another request was faster.
   */
  create(life: NewLife, replaces: Guard | null, terms: LeaseTerms): Promise<InProgressRecord | null>;

  /** Edge `accept`: a `pending` record that a worker claims later. Null as in `create`. */
  accept(life: NewLife, replaces: Guard | null, expiresAfterMs: number): Promise<PendingRecord | null>;

  /**
   * Edge `claim`: starts attempt 1 of `pending` records, of each operation at most as many as it has tokens, oldest first.
   * Past their expiry they are left to the record-cleaner; rows that somebody is changing are skipped. A reply that is lost
   * leaves attempts that nobody runs: their leases end.
   */
  claimPending(wants: readonly PendingWant[]): Promise<readonly InProgressRecord[]>;

  /**
   * Edge `take_over`, from `retryable`, or from `in_progress` whose lease has ended by the store's clock at the moment
   * of the write: attempt + 1 under `token`. The fingerprint is part of the guard. Null: the guard did not hold, or
   * somebody is changing the record right now.
   */
  takeOver(
    key: RecordKey,
    guard: Guard,
    fingerprint: Fingerprint,
    token: string,
    terms: LeaseTerms,
  ): Promise<InProgressRecord | null>;

  /**
   * Extends a lease to `leaseMs` from now. False: it has ended or belongs to somebody else. Never waits for a phase or
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
  loseTransaction(life: NewLife, replaces: Guard | null, errorCode: string): Promise<UnknownRecord | null>;

  /**
   * At most `limit` records whose lease has ended and that nobody may take over: policy `reconcile`, attempts spent, or
   * past expiry. First those for which that has been so for longest.
   */
  endedLeases(limit: number): Promise<readonly EndedLease[]>;

  /**
   * Takes the record-cleaner's edges on at most `limit` records each: `abandon`, `purge`, `forget`; and removes at most
   * `limit` delivered effects, and tallies of messages, whose time is over. Rows that somebody is changing are left for the next time. Never touches
   * `in_progress`, `retryable` or `unknown`, and forgets no record with an effect that is not delivered.
   */
  clean(limit: number): Promise<CleanReport>;
}

export interface EndedLease {
  readonly record: InProgressRecord;
  readonly leaseEnd: LeaseEnd;
  readonly attemptsMax: number;
}

export type IsolationLevel = "read committed" | "repeatable read" | "serializable";

export interface TransactionRequest {
  readonly key: RecordKey;
  /** Null: the database's default. */
  readonly isolation: IsolationLevel | null;
  /** After this much idle time the database itself ends the transaction, so that a frozen process frees its key. */
  readonly idleLimitMs: number;
  /** Set a savepoint before the handler, so that its writes can go while its answer stays. */
  readonly savepoint: boolean;
}

/** A transaction after admission's look-up, before the handler. */
export interface OpenTransaction<Tx> {
  readonly reading: Reading;
  /** True when this transaction is the only one running this key. */
  readonly exclusive: boolean;
  /** The caller's own client or transaction, guarded: no transaction control, revoked before COMMIT. */
  readonly tx: Tx;
  /** Whether the handler has touched `tx`. */
  used(): boolean;
  /** From now on every use of `tx` throws `tx-revoked`. */
  revoke(): void;
}

export type TransactionWork<T> =
  /** Roll back; nothing of the handler's work stays. */
  | { readonly end: "rollback"; readonly value: T }
  /** The handler may still be running: end the connection instead of asking it politely. */
  | { readonly end: "abandon"; readonly value: T }
  /** Write the finished record, guarded by what admission saw, and COMMIT. */
  | {
      readonly end: "commit";
      readonly value: T;
      readonly life: NewLife;
      readonly replaces: Guard | null;
      readonly answer: Uint8Array;
      readonly retention: Retention;
      /** Undo the handler's writes first (to the savepoint), keep the answer. Then there are no effects. */
      readonly undoWrites: boolean;
      /** Written in the same transaction, in this order. */
      readonly effects: readonly NewEffect[];
    };

export type TransactionOutcome<T> =
  | { readonly kind: "committed"; readonly value: T; readonly expiresAt: number }
  | { readonly kind: "rolled_back"; readonly value: T }
  /** The record changed since admission; rolled back, decide again. */
  | { readonly kind: "lost"; readonly value: T }
  /**
   * The database refused and rolled back for certain. `serialization`: running the whole transaction again may succeed.
   * `aborted`: an earlier error was swallowed by the handler.
   */
  | {
      readonly kind: "refused";
      readonly value: T;
      readonly because: "serialization" | "aborted" | "other";
      readonly error: unknown;
    }
  /** COMMIT was sent and its outcome is not known. */
  | { readonly kind: "in_doubt"; readonly value: T; readonly error: unknown }
  /** The transaction that admission opened is not the one that reached the end: the handler committed or rolled back. */
  | { readonly kind: "changed"; readonly value: T };

/** One phase of a lease: a transaction that also writes its step. */
export interface PhaseRequest {
  readonly owner: Owner;
  readonly isolation: IsolationLevel | null;
  readonly idleLimitMs: number;
}

export type OpenPhase<Tx> = Pick<OpenTransaction<Tx>, "tx" | "used" | "revoke">;

export type PhaseWork<T> =
  | { readonly end: "rollback"; readonly value: T }
  | { readonly end: "abandon"; readonly value: T }
  /**
   * Write the finished step, advance the recovery point, and COMMIT; all of it guarded by (id, `in_progress`, fence). A
   * step of that name that is there already is not overwritten: `refused`.
   */
  | {
      readonly end: "commit";
      readonly value: T;
      readonly step: {
        readonly name: string;
        readonly position: number;
        readonly version: string;
        readonly result: Uint8Array;
      };
      /** The attempt completes with this phase: edge `complete` in the same transaction. */
      readonly completes: { readonly answer: Uint8Array; readonly retention: Retention } | null;
      /** Written in the same transaction, in this order. */
      readonly effects: readonly NewEffect[];
    };

/** `committed.expiresAt` is null unless the phase completed the attempt. `lost`: the fence no longer held; rolled back. */
export type PhaseOutcome<T> =
  | { readonly kind: "committed"; readonly value: T; readonly expiresAt: number | null }
  | Exclude<TransactionOutcome<T>, { readonly kind: "committed" }>;

/** The end of one delivery: a transaction that also finishes the effect. */
export interface DeliveryRequest {
  readonly claim: EffectClaim;
  readonly idleLimitMs: number;
  /** How long the delivered row is kept to be seen. */
  readonly keepMs: number;
}

export type DeliveryWork<T> =
  | { readonly end: "rollback"; readonly value: T }
  | { readonly end: "abandon"; readonly value: T }
  /** Effect → `delivered`, with the result that was kept, guarded by the claim; and COMMIT. */
  | {
      readonly end: "commit";
      readonly value: T;
      /** Also completes the effect's record, which must be exactly this version and `retryable`. */
      readonly answers: {
        readonly key: RecordKey;
        readonly guard: Guard;
        readonly answer: Uint8Array;
        readonly retention: Retention;
      } | null;
    };

/** `lost`: the claim, or the guard on the record, no longer held; rolled back. */
export type DeliveryOutcome<T> =
  | { readonly kind: "committed"; readonly value: T }
  | Exclude<TransactionOutcome<T>, { readonly kind: "committed" }>;

export interface TransactionSupport<Tx> {
  /**
   * Opens a transaction for the end of one delivery and hands it to `work`. A COMMIT in doubt needs no resolving: the claim
   * cannot be taken by others before it is decided, and then the effect's own row tells.
   *
   * @throws as `run` does.
   */
  deliver<T>(
    request: DeliveryRequest,
    work: (open: OpenPhase<Tx>) => Promise<DeliveryWork<T>>,
  ): Promise<DeliveryOutcome<T>>;

  /**
   * Opens a transaction for one phase of a running attempt and hands it to `work`. It never waits for the heartbeat, and
   * the heartbeat never for it: until its last statements it touches no row of Latchkey's.
   *
   * @throws as `run` does.
   */
  phase<T>(
    request: PhaseRequest,
    work: (open: OpenPhase<Tx>) => Promise<PhaseWork<T>>,
  ): Promise<PhaseOutcome<T>>;

  /**
   * Opens the outermost transaction, looks the key up in it and hands both to `work`.
   *
   * @throws {StoreError} when the transaction could not be opened; `work` did not run.
   * @throws whatever `work` throws, after rolling back.
   */
  run<T>(
    request: TransactionRequest,
    work: (open: OpenTransaction<Tx>) => Promise<TransactionWork<T>>,
  ): Promise<TransactionOutcome<T>>;

  /**
   * Finds out, on a new connection, what became of a COMMIT in doubt: waits until the doubtful transaction cannot commit
   * any more, then reads, durably. Inserts nothing. `in_doubt`: not settled within `timeoutMs`.
   */
  resolve(
    key: RecordKey,
    id: string,
    fence: Fence,
    timeoutMs: number,
  ): Promise<"committed" | "rolled_back" | "in_doubt">;
}
