/**
 * The subset of node-postgres (`pg` 8, the JavaScript client) that Latchkey needs, typed structurally. What users hand
 * over is typed by `PgPool`; the rest is what Latchkey finds behind it.
 */

/** A `pg` Pool, or anything that hands out `pg` clients in the same way. */
export interface PgPool {
  connect: (...args: never[]) => unknown;
  readonly options?: PgPoolOptions | undefined;
}

/** What a pool says about itself. */
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

/** What a handler gets as `tx`: the pool's own client type, without giving the client back. */
export type PgTx<P> = Omit<ClientOf<P>, "release">;

/** A pool as Latchkey calls it. */
export interface PgConnector {
  /**
   * Calls back in the very moment in which the client is there: after a promise it would be without a listener for a while,
   * and an error that came in the same piece as the server's "ready" would end the process. A pool that takes no callback
   * answers with a promise.
   */
  connect(callback: (error: unknown, client?: PgClient) => void): PromiseLike<PgClient> | undefined;
  /** Says which clients are checked out, by any code. */
  on?(event: "acquire" | "remove", listener: (client: object) => void): unknown;
  on?(event: "release", listener: (error: unknown, client: object) => void): unknown;
  readonly options?: PgPoolOptions | undefined;
  /** How many clients are out, where a pool counts them itself. */
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
  /** The server process, as who answered said when the connection was opened. */
  readonly processID?: number | null;
  readonly connection?: PgConnection;
}

/** An error or a notice of the server. Errors of the network come the same way, with less in it. */
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

/** One of `pg`'s own queries, with parameters, so that it is prepared and never sent as a simple query. */
export interface PgRider extends PgSubmittable {
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
  /** `pg`'s own list of what it has prepared under names: their texts. */
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
