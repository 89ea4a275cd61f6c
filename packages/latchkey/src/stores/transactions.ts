/**
 * Transactions of the user's database, as a store opens them: for a request, for one phase of an attempt, and for the end of a
 * delivery. All writes in them are committed together or not at all.
 */
import type { Fence, Guard, RecordKey } from "../engine/record.ts";
import type { StoreError } from "../errors.ts";
import type { IsolationLevel } from "../sql/transaction.ts";
import type { Owner } from "./journal.ts";
import type { NewLife, Reading } from "./life.ts";
import type { EffectClaim, NewEffect } from "./outbox.ts";
import type { Retention } from "./retention.ts";

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
  /** Why nothing can be written in this transaction, if that is so; then a handler must not start. */
  readonly refusal?: StoreError | null;
  /** The caller's own client or transaction, guarded: no transaction control, revoked before COMMIT. */
  readonly tx: Tx;
  /** Whether the handler has touched `tx`. */
  used(): boolean;
  /**
   * Sends the writes that the caller's client defers until COMMIT. Called when the handler has answered and its writes are to
   * be kept, before `revoke`; its error counts as the handler's. Absent: nothing is deferred.
   */
  readonly flush?: (() => Promise<void>) | undefined;
  /** From now on every use of `tx` throws `tx-revoked`. */
  revoke(): void;
}

/** The facts for admission's decision, once the transaction is open. */
export type Admission = Pick<OpenTransaction<never>, "reading" | "exclusive" | "refusal">;

/**
 * A transaction whose handler starts before it is open (optimistic admission). It opens with the first statement that is
 * sent through `tx`, in one pipeline with it; that statement, and each later one, returns only when the run has been admitted,
 * and rejects with `not-admitted` if it was not.
 */
export interface OptimisticTransaction<Tx>
  extends Pick<OpenTransaction<Tx>, "tx" | "used" | "flush" | "revoke"> {
  /**
   * Whether the run was admitted. Opens the transaction if no statement has opened it yet. Work that has sent a statement ends
   * after this has settled, or with `abandon`; it commits only after true.
   *
   * @throws {StoreError} when the transaction could not be opened
   * @throws whatever `admit` throws
   */
  admitted(): Promise<boolean>;
}

export type TransactionWork<T> =
  /** Roll back; none of the handler's writes stays. */
  | { readonly end: "rollback"; readonly value: T }
  /** The handler may still be running, so the connection is ended without waiting for it. */
  | { readonly end: "abandon"; readonly value: T }
  /** Write the finished record, guarded by the version that admission read, and COMMIT. */
  | {
      readonly end: "commit";
      readonly value: T;
      readonly life: NewLife;
      readonly replaces: Guard | null;
      readonly answer: Uint8Array;
      readonly retention: Retention;
      /** Undo the handler's writes first (to the savepoint) and keep the answer. There are no effects then. */
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

/** Several keys in one transaction. */
export interface BatchRequest extends Pick<TransactionRequest, "isolation" | "idleLimitMs"> {
  /** Each once. */
  readonly keys: readonly RecordKey[];
}

/** One of several pieces of work in a transaction, each of which can be undone without the others. */
export interface TransactionPart<Tx> extends Pick<OpenTransaction<Tx>, "tx" | "used" | "flush" | "revoke"> {
  /**
   * `failed`: an error has left the transaction unusable, until the part is undone. `ended`: the part has ended the
   * transaction, so that what ran in it may stay.
   */
  state(): "usable" | "failed" | "ended";
  /** Whether settings that it has made for the transaction affect later parts. */
  leavesBehind(): boolean;
  /**
   * Undoes what the part has written. Called after `revoke`.
   *
   * @throws when that is not possible: then the whole batch must be rolled back
   */
  undo(): Promise<void>;
}

export interface OpenBatch<Tx> {
  /** For each key, in the order of the request. Null if only a transaction of its own can decide about the key. */
  readonly admissions: readonly (Admission | null)[];
  /** Begins the next part; the one before it has been revoked, and undone if it was not to stay. */
  part(): TransactionPart<Tx>;
}

/** A finished record where there was none, with its effects in their order. */
export type BatchedRecord = Pick<CommitWork, "life" | "answer" | "retention" | "effects">;

type CommitWork = Extract<TransactionWork<unknown>, { readonly end: "commit" }>;

export type BatchWork<T> =
  | { readonly end: "rollback"; readonly value: T }
  | { readonly end: "abandon"; readonly value: T }
  /** Write the records, and COMMIT: all of them or none. */
  | { readonly end: "commit"; readonly value: T; readonly records: readonly BatchedRecord[] };

export type BatchOutcome<T> =
  | {
      readonly kind: "committed";
      readonly value: T;
      /** For each record, by its life's id. */
      readonly expiresAt: ReadonlyMap<string, number>;
    }
  | Exclude<TransactionOutcome<T>, { readonly kind: "committed" }>;

/** One phase of a lease: a transaction that also writes its step. */
export interface PhaseRequest {
  readonly owner: Owner;
  readonly isolation: IsolationLevel | null;
  readonly idleLimitMs: number;
}

export type OpenPhase<Tx> = Pick<OpenTransaction<Tx>, "tx" | "used" | "flush" | "revoke">;

export type PhaseWork<T> =
  | { readonly end: "rollback"; readonly value: T }
  | { readonly end: "abandon"; readonly value: T }
  /**
   * Write the finished step, advance the recovery point, and COMMIT; all of it guarded by (id, `in_progress`, fence). A
   * step of that name that exists already is not overwritten: `refused`.
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
  /** The effect's tenant, in whose database the transaction must run. */
  readonly tenant: string;
  readonly idleLimitMs: number;
  /** How long the delivered row is kept for inspection. */
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
   * Opens a transaction for the end of one delivery and passes it to `work`. A COMMIT in doubt needs no resolving, because no
   * other dispatcher can take the claim before it is decided, and then the effect's own row shows the outcome.
   *
   * @throws as `run` does.
   */
  deliver<T>(
    request: DeliveryRequest,
    work: (open: OpenPhase<Tx>) => Promise<DeliveryWork<T>>,
  ): Promise<DeliveryOutcome<T>>;

  /**
   * Opens a transaction for one phase of a running attempt and passes it to `work`. Neither it nor the heartbeat ever waits
   * for the other, because until its last statements it touches no row of Latchkey's.
   *
   * @throws as `run` does.
   */
  phase<T>(
    request: PhaseRequest,
    work: (open: OpenPhase<Tx>) => Promise<PhaseWork<T>>,
  ): Promise<PhaseOutcome<T>>;

  /**
   * Opens the outermost transaction, looks the key up in it and passes both to `work`.
   *
   * @throws {StoreError} when the transaction could not be opened; `work` did not run.
   * @throws whatever `work` throws, after rolling back.
   */
  run<T>(
    request: TransactionRequest,
    work: (open: OpenTransaction<Tx>) => Promise<TransactionWork<T>>,
  ): Promise<TransactionOutcome<T>>;

  /**
   * As `run`, for work that starts before its transaction is open. `admit` is called at most once, with the transaction open
   * and before any statement of the handler has returned; if it returns false, the transaction must be rolled back. Absent: the
   * store cannot do it.
   *
   * @throws whatever `work` throws, after rolling back.
   */
  runOptimistic?<T>(
    request: TransactionRequest,
    admit: (seen: Admission) => Promise<boolean>,
    work: (open: OptimisticTransaction<Tx>) => Promise<TransactionWork<T>>,
  ): Promise<TransactionOutcome<T>>;

  /**
   * As `run`, for several keys, whose handlers run one after the other in parts of one transaction. Absent: the store cannot
   * do it.
   *
   * @throws as `run` does.
   */
  runBatch?<T>(
    request: BatchRequest,
    work: (open: OpenBatch<Tx>) => Promise<BatchWork<T>>,
  ): Promise<BatchOutcome<T>>;

  /**
   * Finds out, on a new connection, the outcome of a COMMIT in doubt: waits until the doubtful transaction can no longer
   * commit, then reads, durably. Inserts nothing. `in_doubt` if that takes longer than `timeoutMs`.
   */
  resolve(
    key: RecordKey,
    id: string,
    fence: Fence,
    timeoutMs: number,
  ): Promise<"committed" | "rolled_back" | "in_doubt">;
}
