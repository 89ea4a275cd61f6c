/** The state that Latchkey keeps for a connection, and how it notices that a transaction on it has ended. */
import type { PgConnection, PgMessage, PgReady, TransactionStatus } from "./client.ts";
import type { RowDecoder } from "./wire-messages.ts";

/** Statements that a connection has prepared under their names, with how to read their rows. */
export type KnownStatements = Map<string, RowDecoder>;

/** Receives what the server sends besides the rows of one query. */
export interface PipelineListener {
  onReady(status: TransactionStatus | undefined): void;
  onComplete?(tag: string): void;
  onNotice?(code: string): void;
}

/**
 * The state that Latchkey keeps for a connection for as long as that lives. It adds its listeners once, because adding and
 * removing them for every transaction takes longer than the calls between transactions.
 */
export class ConnectionState {
  /** Separate from `pg`'s own list, in which no name has Latchkey's prefix. */
  readonly known: KnownStatements = new Map();
  /** The server's last status when it was ready, or since then after an error; null if it has sent none since Latchkey listens. */
  status: TransactionStatus | null = null;
  /** The session's default isolation level; null if it is unknown or may have changed. */
  isolation: string | null = null;
  /** The schemas in which tables were looked up when handlers' statements were prepared. */
  namedIn: string | null = null;
  pipeline: PipelineListener | null = null;
  watch: PipelineListener | null = null;

  constructor(connection: PgConnection) {
    // Before `pg` itself handles it and notifies the query.
    connection.prependListener("readyForQuery", ({ status }: PgReady) => {
      this.status = status ?? null;
      this.pipeline?.onReady(status);
      this.watch?.onReady(status);
    });
    // `pg` hands an error to its query at once, and the server's "ready" may come in a later packet.
    connection.prependListener("errorMessage", () => {
      if (this.status === "T") this.status = "E";
    });
    connection.on("commandComplete", ({ text }) => this.watch?.onComplete?.(text));
    connection.on("parameterStatus", ({ parameterName }) => {
      if (parameterName === "client_encoding") this.isolation = null;
    });
    connection.on("notice", ({ code }: PgMessage) => {
      if (code !== undefined) this.pipeline?.onNotice?.(code);
    });
  }
}

const states = new WeakMap<PgConnection, ConnectionState>();

export function stateOf(connection: PgConnection): ConnectionState {
  let state = states.get(connection);
  if (state === undefined) {
    state = new ConnectionState(connection);
    states.set(connection, state);
  }
  return state;
}

/**
 * Notices when the transaction on a connection has ended, in any way that bypasses the guarded `tx`. The server sends its
 * status with every "ready for query"; a transaction that was ended and begun again in a single message shows by its tag.
 */
export class TransactionWatch implements PipelineListener {
  readonly #state: ConnectionState | null;
  #ended = false;

  constructor(connection: PgConnection | undefined) {
    this.#state = connection === undefined ? null : stateOf(connection);
    if (this.#state !== null) this.#state.watch = this;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** Stops watching; the first call decides. False if the transaction had ended before. */
  stopUnended(): boolean {
    if (this.#state?.watch === this) this.#state.watch = null;
    return !this.#ended;
  }

  onReady(status: TransactionStatus | undefined): void {
    if (status === "I") this.#ended = true;
  }

  onComplete(tag: string): void {
    if (tag === "COMMIT" || tag === "PREPARE TRANSACTION") this.#ended = true;
  }
}
