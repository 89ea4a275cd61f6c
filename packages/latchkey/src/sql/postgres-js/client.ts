/**
 * The subset of postgres.js 3 that Latchkey needs. `PostgresJsSql` types the `sql` that users pass; the other types are
 * internals beyond its documentation on which Latchkey relies, and no other file declares any.
 */

/** What `postgres()` returns. */
export interface PostgresJsSql {
  readonly options: {
    readonly max: number;
    readonly transform: PostgresJsTransform;
    /** How often opening a connection has failed since the last one was opened. */
    readonly shared?: { readonly retries: number };
  };
  begin: (...args: never[]) => unknown;
  unsafe: (...args: never[]) => unknown;
}

export interface PostgresJsTransform {
  readonly column: { readonly from?: ((name: string) => string) | undefined };
  readonly row: { readonly from?: unknown };
}

/** What postgres.js hands to the callback of `sql.begin()`: `TransactionSql`. */
export type PostgresJsTx<S extends PostgresJsSql> = S extends {
  begin: (options: string, work: (tx: infer Tx) => infer _) => unknown;
}
  ? Tx
  : never;

/** `sql` as Latchkey calls it. */
export interface Client {
  (first: unknown, ...rest: unknown[]): unknown;
  readonly options: PostgresJsSql["options"];
  readonly types: unknown;
  readonly array: unknown;
  readonly json: unknown;
  unsafe(text: string, values?: readonly unknown[], options?: QueryOptions): Query;
}

export interface QueryOptions {
  readonly prepare?: boolean;
  readonly simple?: boolean;
  /** Called when the query has been written to a connection; `sql.begin()` finds its connection in the same way. */
  readonly onexecute?: (connection: ServerConnection) => unknown;
}

/** A query; when it is awaited, its `handler` sends it. */
export interface Query extends Promise<Result> {
  handler: Handler;
  readonly strings: readonly string[];
  readonly args: readonly unknown[];
  readonly active: boolean;
  /** A cursor, which is open until its reader has ended it. */
  readonly cursorFn?: unknown;
  /** A COPY, whose promise settles with the stream. */
  readonly streaming?: boolean;
  raw(): this;
  execute(): this;
  cancel(): unknown;
  reject(error: unknown): void;
}

export interface Handler {
  (query: Query): unknown;
  readonly debug?: unknown;
}

/** The rows, each as the server's bytes, after `raw()`. */
export interface Result extends ReadonlyArray<readonly (Uint8Array | null)[]> {
  readonly command: string;
  readonly columns?: readonly { readonly name: string; readonly type: number }[];
}

/** A connection of the pool. One that is reserved gets no queries of others, until its transaction has ended. */
export interface ServerConnection {
  /** False when the next query has to wait for this one. */
  execute(query: Query): boolean;
  terminate(): void;
  /** Called when the connection is ready for the next query; with `release`, it stays reserved after the transaction. */
  reserved: ((() => unknown) & { release?: boolean }) | null;
  onclose?: ((error: unknown) => void) | null;
}

export function isQuery(value: unknown): value is Query {
  return value instanceof Promise && "handler" in value && "strings" in value;
}
