/**
 * The subset of node-postgres (`pg` 8, the JavaScript client) that Latchkey needs, typed structurally. `PgPool` types the
 * pool that users pass; the other types are for the objects behind it.
 */

/** A `pg` Pool, or anything that hands out `pg` clients in the same way. */
export interface PgPool {
  connect: (...args: never[]) => unknown;
  readonly options?: PgPoolOptions | undefined;
}

/** The options that a pool exposes. */
export interface PgPoolOptions {
  readonly max?: number | undefined;
  readonly connectionTimeoutMillis?: number | undefined;
}

/** The type of client that a pool hands out. */
export type ClientOf<P> = P extends { connect: { (): Promise<infer C>; (...args: never[]): void } }
  ? C
  : P extends { connect: (...args: never[]) => Promise<infer C> }
    ? C
    : never;

/** The `tx` of a handler: the pool's own client type without `release`. */
export type PgTx<P> = Omit<ClientOf<P>, "release">;

/** A pool as Latchkey calls it. */
export interface PgConnector {
  /**
   * Calls back synchronously when the client is ready. After a promise the client would have no listener for a while, and
   * an error in the same packet as the server's "ready" would end the process. A pool that takes no callback returns a
   * promise.
   */
  connect(callback: (error: unknown, client?: PgClient) => void): PromiseLike<PgClient> | undefined;
  /** Reports which clients are checked out, by any code. */
  on?(event: "acquire" | "remove", listener: (client: object) => void): unknown;
  on?(event: "release", listener: (error: unknown, client: object) => void): unknown;
  readonly options?: PgPoolOptions | undefined;
  /** How many clients are checked out, where a pool counts them itself. */
  readonly busyCount?: number;
}

/** A client that was checked out. */
export interface PgClient {
  query(query: PgSubmittable): unknown;
  release(error?: boolean): void;
  on(event: "error", listener: (message: PgMessage) => void): unknown;
  removeListener(event: "error", listener: (message: PgMessage) => void): unknown;
  /** True where queries are sent before earlier ones are answered. */
  readonly pipeline?: boolean;
  /** The id of the server process, as the server or a pooler sent it when the connection was opened. */
  readonly processID?: number | null;
  readonly connection?: PgConnection;
}

/** An error or a notice of the server. Network errors arrive in the same way, with fewer fields. */
export interface PgMessage {
  readonly code?: string;
}

/** A query that writes its own protocol messages and receives the replies to them. */
export interface PgSubmittable {
  callback: (error: unknown) => void;
  /** An error instead of null: nothing was sent. */
  submit(connection: PgConnection): Error | null;
  handleRowDescription(message: { readonly fields: readonly PgField[] }): void;
  handleDataRow(message: { readonly fields: readonly (string | null)[] }): void;
  handleCommandComplete(message: { readonly text: string }, connection?: PgConnection): void;
  handleEmptyQuery(connection?: PgConnection): void;
  handlePortalSuspended(): void;
  handleCopyInResponse(connection: PgConnection): void;
  handleCopyData(): void;
  handleReadyForQuery(connection?: PgConnection): void;
  handleError(error: unknown, connection: PgConnection | undefined): void;
  readonly name?: string | undefined;
  readonly text?: string | undefined;
}

/** A query object of `pg` itself, with parameters, so that it is prepared and never sent as a simple query. */
export interface PgTrailingQuery extends PgSubmittable {
  name?: string | undefined;
  readonly text: string;
}

export interface PgField {
  readonly name: string;
  readonly dataTypeID: number;
}

/** The protocol connection under a client. */
export interface PgConnection {
  readonly stream: {
    readonly writable: boolean;
    cork?(): void;
    uncork?(): void;
    write(bytes: Uint8Array): unknown;
    destroy(): unknown;
  };
  /** The texts of the statements that `pg` itself has prepared, by name. */
  readonly parsedStatements?: Record<string, string>;
  sendCopyFail(reason: string): void;
  prependListener(event: "readyForQuery", listener: (message: PgReady) => void): unknown;
  prependListener(event: "errorMessage", listener: () => void): unknown;
  on(event: "notice", listener: (message: PgMessage) => void): unknown;
  on(event: "parameterStatus", listener: (message: { readonly parameterName: string }) => void): unknown;
  on(event: "commandComplete", listener: (message: { readonly text: string }) => void): unknown;
  once(event: "end", listener: () => void): unknown;
  removeListener(event: string, listener: (message: never) => void): unknown;
}

/** Idle, inside a transaction, or inside a failed one. */
export type TransactionStatus = "I" | "T" | "E";

export interface PgReady {
  readonly status?: TransactionStatus;
}
