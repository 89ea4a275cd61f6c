/** What a case of the bridge suite is, and the context it runs in. */
import type { SqlRow, SqlValue, Store, TransactionBridge } from "latchkey";

/** One bridge and its environment, used by one case. The database is PostgreSQL and may be kept between cases. */
export interface BridgeUnderTest<Tx> {
  readonly bridge: TransactionBridge<Tx>;
  /**
   * Runs one statement (`$1` placeholders) through the `tx` that a handler received. Errors may be wrapped, with the original
   * as `cause` or `original`.
   */
  execute(tx: Tx, text: string, values?: readonly SqlValue[]): Promise<readonly SqlRow[]>;
  /**
   * Prepares a statement without sending it, as far as the client allows: a bound method, a query builder. The returned
   * function sends it.
   */
  prepare(tx: Tx, text: string): () => Promise<unknown>;
  /** Runs one statement that commits immediately, on a separate session if there is more than one. */
  outside(text: string, values?: readonly SqlValue[]): Promise<readonly SqlRow[]>;
  /**
   * Migrates the database, and creates a store over the bridge. Both use the bridge's own connections if the client lends
   * them.
   */
  makeStore(): Promise<Store<Tx>>;
  /** How many connections the bridge has taken and not yet returned or closed. */
  busyConnections(): number;
  /** Called once after the case, even if it failed. */
  close(): void | Promise<void>;
}

/** The context of a case; it does not know the type of `tx`. */
export interface BridgeContext extends Omit<BridgeUnderTest<unknown>, "close"> {
  readonly capabilities: BridgeCapabilities;
  /** Longer than anything that works takes. */
  readonly patienceMs: number;
}

export interface BridgeCapabilities {
  /** `many`: transactions run in parallel, and the server can end one of them. `one`: PGlite. */
  readonly sessions: "many" | "one";
  /** What the bridge declares. */
  readonly commitNotice: boolean;
  /** Whether the factory can limit the bridge to one connection. Default true. */
  readonly oneConnection?: boolean;
}

export interface BridgeLimits {
  /** How many connections the bridge may take at most: 6, or 1. Has no effect with one session. */
  readonly connections: number;
}

export interface BridgeCase {
  /** Starts with the group: `commit: …`. Stable, because `skip` refers to it. */
  readonly name: string;
  /** What the case needs. Absent: the case always applies. */
  readonly needs?: (capabilities: BridgeCapabilities) => boolean;
  /** How many connections the bridge may take. Default 6. */
  readonly connections?: number;
  run(context: BridgeContext): Promise<void>;
}
