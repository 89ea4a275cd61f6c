import type { PgConnection, PgMessage, PgReady, TransactionStatus } from "./client.ts";
import type { RowDecoder } from "./values.ts";

/** Statements that a connection has prepared under their names, with how to read their rows. */
export type KnownStatements = Map<string, RowDecoder>;

/** Who wants to hear what the server says beside the rows of one query. */
export interface Hearer {
  onReady(status: TransactionStatus | undefined): void;
  onComplete?(tag: string): void;
  onNotice?(code: string): void;
}

/**
 * What Latchkey keeps of a connection for as long as it lives. It listens once: to add and remove listeners for every
 * transaction takes longer than to be called for nothing.
 */
export class ConnectionState {
  /** Kept apart from `pg`'s own list, whose names never begin alike. */
  readonly known: KnownStatements = new Map();
  flight: Hearer | null = null;
  watch: Hearer | null = null;

  constructor(connection: PgConnection) {
    // Before `pg` itself hears it and tells the query.
    connection.prependListener("readyForQuery", ({ status }: PgReady) => {
      this.flight?.onReady(status);
      this.watch?.onReady(status);
    });
    connection.on("commandComplete", ({ text }) => this.watch?.onComplete?.(text));
    connection.on("notice", ({ code }: PgMessage) => {
      if (code !== undefined) this.flight?.onNotice?.(code);
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
