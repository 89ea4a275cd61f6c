/** What a case of the store suite is, and the context it runs in. */
import type { Store, StoreCapabilities } from "latchkey";

/**
 * Business writes inside a store's transactions, with which the suite checks that they commit and roll back with the record.
 */
export interface BusinessPort<Tx> {
  /** Writes one row through the transaction that the handler received. */
  write(tx: Tx, row: string): Promise<void>;
  /** All committed rows, in any order, as another session sees them. */
  committedRows(): Promise<readonly string[]>;
}

/** One empty store and its environment, used by one case. */
export interface StoreUnderTest<Tx> {
  readonly store: Store<Tx>;
  /** Another instance on the same data, as another process would have it; the suite races the two. */
  readonly secondStore?: Store<Tx>;
  /** Moves the store's clock forward, for both instances. */
  advance(milliseconds: number): void | Promise<void>;
  /** Required if the store has transactions. Starts without rows. */
  readonly business?: BusinessPort<Tx>;
  /** Called once after the case, even if it failed. */
  close(): void | Promise<void>;
}

/** The context of a case; it does not know the store's transaction type. */
export interface CaseContext {
  readonly store: Store<unknown>;
  /** The second instance; if there is none, the first. */
  readonly other: Store<unknown>;
  readonly capabilities: StoreCapabilities;
  /** The store's time stands still between two calls of `advance`. */
  readonly frozenClock: boolean;
  readonly business: BusinessPort<unknown> | null;
  advance(milliseconds: number): Promise<void>;
}

export interface StoreCase {
  /** Starts with the group: `create: …`. Stable, because `skip` refers to it. */
  readonly name: string;
  /** What the store must declare for the case to apply. Absent: the case always applies. */
  readonly needs?: (capabilities: StoreCapabilities) => boolean;
  /** Checks a boundary to the millisecond, so it applies only to a clock that stands still. */
  readonly frozenClock?: true;
  run(context: CaseContext): Promise<void>;
}
