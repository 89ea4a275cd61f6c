/**
 * The bridge contract: how Latchkey opens the outermost transaction through the client or ORM that owns transactions in
 * the user's code. A bridge translates; it has no reference to Latchkey's tables and decides nothing.
 *
 * - The bridge opens the transaction itself (through the ORM, if there is one); it never joins one it did not open.
 * - Statements are single, with casts on every parameter, `$1` placeholders and no int8 in their results, so that every
 *   client can run them and returns plain values: string, number, boolean, null, Uint8Array.
 * - Where the owner allows it, the opening statements travel with BEGIN and the closing ones with COMMIT, without extra
 *   round trips.
 */

export type IsolationLevel = "read committed" | "repeatable read" | "serializable";

export interface SqlStatement {
  /** Stable name for the server's statement cache; one text per name. */
  readonly name: string;
  readonly text: string;
  readonly values: readonly SqlValue[];
}

export type SqlValue = string | number | boolean | null | Uint8Array;

export type SqlRow = Readonly<Record<string, SqlValue>>;

export interface BridgeRequest {
  readonly isolation: IsolationLevel | null;
  /** Run in order, first in the transaction, before `work`. */
  readonly opening: readonly SqlStatement[];
}

/** The open transaction, as `work` gets it. */
export interface BridgeSession<Tx> {
  /** The rows of each opening statement. */
  readonly opened: readonly (readonly SqlRow[])[];
  /**
   * Passed to the handler: the client's own type, guarded. It refuses transaction control (`transaction-control`) and,
   * once revoked, everything (`tx-revoked`).
   */
  readonly tx: Tx;
  /** Whether `tx` was used to run something. */
  used(): boolean;
  /**
   * Whether a statement went through `tx` that may have changed the role, the search path or another setting which
   * statements after it depend on. Absent: it is not known.
   */
  mayHaveChangedSession?(): boolean;
  /**
   * Sends the writes that the client defers until COMMIT, as a unit of work does. Called at most once, when the handler has
   * answered and its writes are to be kept, before `revoke`. Its error counts as the handler's. Absent: nothing is deferred.
   */
  flush?(): Promise<void>;
  revoke(): void;
}

/** A session whose transaction opens with the first statement through `tx`, in one pipeline with it. */
export interface OptimisticSession<Tx> extends Omit<BridgeSession<Tx>, "opened"> {
  /**
   * Opens the transaction, if no statement has opened it yet, and resolves to what `admit` has returned. Work that has sent a
   * statement ends after this has settled, or with `abandon`; it commits only after true.
   *
   * @throws {StoreError} when the transaction could not be opened
   * @throws whatever `admit` throws
   */
  admitted(): Promise<boolean>;
}

/**
 * One of several pieces of work that run one after the other in a transaction, each of which can be undone without the
 * others. The bridge sets a savepoint under a name of its own before the part's first statement; savepoints of the handler's
 * own are inside it.
 */
export interface BridgePart<Tx> extends Omit<BridgeSession<Tx>, "opened"> {
  /**
   * `failed`: an error has left the transaction unusable, until the part is undone. `ended`: the part has ended the
   * transaction; nothing may follow it.
   */
  state(): "usable" | "failed" | "ended";
  /**
   * Undoes what the part has sent. Called after `revoke`.
   *
   * @throws when that is not possible: then the whole transaction must be rolled back
   */
  undo(): Promise<void>;
}

export interface PartedSession<Tx> extends Pick<BridgeSession<Tx>, "opened"> {
  /** Begins the next part; the one before it has been revoked, and undone if it was not to stay. */
  part(): BridgePart<Tx>;
}

export type BridgeWork<T> =
  | { readonly end: "rollback"; readonly value: T }
  /** End the connection without waiting for it: the handler may still hold it. */
  | { readonly end: "abandon"; readonly value: T }
  /** Run `closing` in order, then COMMIT. A closing statement that raises rolls everything back. */
  | { readonly end: "commit"; readonly value: T; readonly closing: readonly SqlStatement[] };

export type BridgeOutcome<T> =
  | { readonly kind: "committed"; readonly value: T; readonly closed: readonly (readonly SqlRow[])[] }
  | { readonly kind: "rolled_back"; readonly value: T }
  /** A closing statement or COMMIT was refused by a live server: rolled back for certain. */
  | {
      readonly kind: "refused";
      readonly value: T;
      readonly sqlState: string;
      /** Whether a closing statement was refused, or COMMIT itself. Absent where the owner hides it. */
      readonly during?: "closing" | "commit";
      /** The driver's error or one that has it as a cause: it names the constraint that refused a row. */
      readonly error: unknown;
    }
  /** COMMIT was sent; its tag was not seen, was not COMMIT, or came with a synchronous-replication warning. */
  | { readonly kind: "in_doubt"; readonly value: T; readonly error: unknown };

export interface TransactionBridge<Tx> {
  readonly name: string;
  /** Whether the bridge receives COMMIT's tag and warnings. */
  readonly commitNotice: boolean;
  /** Emits a process warning if the user's client is configured dangerously. The store's `verify` calls it. */
  verify?(): void;

  /**
   * @throws {StoreError} when the transaction could not be opened or an opening statement failed; `work` did not run.
   * @throws whatever `work` throws, after rolling back.
   */
  transact<T>(
    request: BridgeRequest,
    work: (session: BridgeSession<Tx>) => Promise<BridgeWork<T>>,
  ): Promise<BridgeOutcome<T>>;

  /**
   * As `transact`, for work that starts before its transaction is open. `admit` gets the rows of the opening statements, at
   * most once, before any statement through `tx` returns. Where it returns false or throws, or where the transaction could
   * not be opened, those statements reject, and `work` ends with a rollback. Absent: this owner of transactions cannot do
   * it.
   *
   * @throws whatever `work` throws, after rolling back.
   */
  transactOptimistic?<T>(
    request: BridgeRequest,
    admit: (opened: BridgeSession<Tx>["opened"]) => Promise<boolean>,
    work: (session: OptimisticSession<Tx>) => Promise<BridgeWork<T>>,
  ): Promise<BridgeOutcome<T>>;

  /**
   * As `transact`, for work in several parts. Absent: this owner of transactions cannot do it.
   *
   * @throws as `transact` does.
   */
  transactParts?<T>(
    request: BridgeRequest,
    work: (session: PartedSession<Tx>) => Promise<BridgeWork<T>>,
  ): Promise<BridgeOutcome<T>>;
}
