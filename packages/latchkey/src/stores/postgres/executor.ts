/** How the store's statements reach a database outside the user's transactions. */
import type { SqlRow, SqlStatement } from "../../sql/transaction.ts";

export interface PostgresExecutor {
  /** Runs a statement that changes nothing. Throws a `StoreError` that is never `in_doubt`. */
  read(statement: SqlStatement): Promise<readonly SqlRow[]>;

  /**
   * Runs one statement that commits by itself. A COMMIT with a warning is in doubt.
   *
   * @throws {StoreError}
   */
  write(statement: SqlStatement): Promise<readonly SqlRow[]>;

  /** Whether `read` and `runUntilConfirmed` can run while a transaction is open. */
  readonly hasSpare: boolean;

  /** The connection that heartbeats have for themselves. */
  readonly heartbeats: Heartbeats;

  /**
   * Runs statements as one READ COMMITTED transaction on a connection of its own, and retries until it has committed without
   * a warning. Null if that takes longer than `timeoutMs`.
   */
  runUntilConfirmed(
    statements: (leftMs: number) => readonly SqlStatement[],
    timeoutMs: number,
  ): Promise<readonly (readonly SqlRow[])[] | null>;
}

export interface Heartbeats {
  /**
   * Reserves a connection, so that a heartbeat of this attempt need not wait for one, until `drop` is called or the attempt has
   * not called for `leaseMs`.
   *
   * @throws {StoreError} `not_sent`
   */
  hold(token: string, leaseMs: number): Promise<void>;
  holds(token: string): boolean;
  drop(token: string): void;
  /** Runs one statement on that connection. Throws as `write` does. */
  beat(statement: SqlStatement): Promise<readonly SqlRow[]>;
}
