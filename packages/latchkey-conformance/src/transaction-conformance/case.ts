/** What a case of the bridge suite is, and what it gets to work with. */
import type { SqlRow, SqlValue, Store, TransactionBridge } from "latchkey";

/** One bridge and its surroundings, used by one case. The database is PostgreSQL and may be kept between cases. */
export interface BridgeUnderTest<Tx> {
  readonly bridge: TransactionBridge<Tx>;
  /** Runs one statement (`$1` placeholders) through what a handler was given. Errors may come out wrapped, as `cause` or `original`. */
  execute(tx: Tx, text: string, values?: readonly SqlValue[]): Promise<readonly SqlRow[]>;
  /**
   * Prepares a statement without sending it, as far as the client can: a bound method, a query builder. The returned
   * function sends it.
   */
  prepare(tx: Tx, text: string): () => Promise<unknown>;
  /** Runs one statement that commits by itself, on a session of its own where there is more than one. */
  outside(text: string, values?: readonly SqlValue[]): Promise<readonly SqlRow[]>;
  /**
   * Migrates the database, and makes a store over the bridge. Both use the bridge's own connections where the client
   * lends them.
   */
  makeStore(): Promise<Store<Tx>>;
  /** How many connections the bridge has taken and not yet given back or ended. */
  busyConnections(): number;
  /** Called once, after the case, also when it failed. */
  close(): void | Promise<void>;
}

/** What a case works with; it does not know the type of `tx`. */
export interface BridgeContext extends Omit<BridgeUnderTest<unknown>, "close"> {
  readonly capabilities: BridgeCapabilities;
  /** Nothing that is in order takes as long. */
  readonly patienceMs: number;
}

export interface BridgeCapabilities {
  /** `many`: transactions run side by side, and the server can end one of them. `one`: PGlite. */
  readonly sessions: "many" | "one";
  /** What the bridge declares. */
  readonly commitNotice: boolean;
  /** Whether the factory can limit the bridge to one connection. Default true. */
  readonly oneConnection?: boolean;
}

export interface BridgeLimits {
  /** How many connections the bridge may take at most: 6, or 1. With one session it has no meaning. */
  readonly connections: number;
}

export interface BridgeCase {
  /** Starts with the group: `commit: …`. Stable, because `skip` names it. */
  readonly name: string;
  /** What the case needs; always applies, when absent. */
  readonly needs?: (capabilities: BridgeCapabilities) => boolean;
  /** How many connections the bridge may take. Default 6. */
  readonly connections?: number;
  run(context: BridgeContext): Promise<void>;
}
