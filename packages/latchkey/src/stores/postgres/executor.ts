/** How the store's statements reach a database outside the user's transactions. */
import type { SqlRow, SqlStatement } from "../../sql/transaction.ts";

export interface PostgresExecutor {
  /** Runs a statement that changes nothing. Throws a `StoreError`, never `in_doubt`. */
  read(statement: SqlStatement): Promise<readonly SqlRow[]>;

  /**
   * Runs one statement that commits by itself. Its COMMIT is believed only without a warning.
   *
   * @throws {StoreError}
   */
  write(statement: SqlStatement): Promise<readonly SqlRow[]>;

  /** Whether `read` and `settle` go through while a transaction is open. */
  readonly hasSpare: boolean;

  /** The connection that heartbeats have for themselves. */
  readonly heartbeats: Heartbeats;

  /**
   * Runs statements as one READ COMMITTED transaction on a connection of its own, and tries again until it has
   * committed without a warning. Null: not within `timeoutMs`.
   */
  settle(
    statements: (leftMs: number) => readonly SqlStatement[],
    timeoutMs: number,
  ): Promise<readonly (readonly SqlRow[])[] | null>;
}

export interface Heartbeats {
  /**
   * Sees to it that a heartbeat of this attempt will not have to wait for a connection, until `drop` or until nothing
   * was heard of it for `leaseMs`.
   *
   * @throws {StoreError} `not_sent`
   */
  hold(token: string, leaseMs: number): Promise<void>;
  drop(token: string): void;
  /** Runs one statement on that connection. Throws as `write` does. */
  beat(statement: SqlStatement): Promise<readonly SqlRow[]>;
}
