/** What a case of the store suite is, and what it gets to work with. */
import type { Store, StoreCapabilities } from "latchkey";

/** Business writes inside a store's transactions, so that the suite can see whether they live and die with the record. */
export interface BusinessPort<Tx> {
  /** Writes one row through the transaction that the handler was given. */
  write(tx: Tx, row: string): Promise<void>;
  /** All rows that are committed, in any order, as another session sees them. */
  committedRows(): Promise<readonly string[]>;
}

/** One empty store and its surroundings, used by one case. */
export interface StoreUnderTest<Tx> {
  readonly store: Store<Tx>;
  /** Another instance on the same data, as another process has it; the suite then lets both race. */
  readonly secondStore?: Store<Tx>;
  /** Moves the store's clock forward; both instances see it. */
  advance(milliseconds: number): void | Promise<void>;
  /** Required when the store has transactions. Starts without rows. */
  readonly business?: BusinessPort<Tx>;
  /** Called once, after the case, also when it failed. */
  close(): void | Promise<void>;
}

/** What a case works with; it does not know the store's transaction type. */
export interface CaseContext {
  readonly store: Store<unknown>;
  /** The second instance, or the first one again. */
  readonly other: Store<unknown>;
  readonly capabilities: StoreCapabilities;
  /** The store's time stands still between two `advance`. */
  readonly frozenClock: boolean;
  readonly business: BusinessPort<unknown> | null;
  advance(milliseconds: number): Promise<void>;
}

export interface StoreCase {
  /** Starts with the group: `create: …`. Stable, because `skip` names it. */
  readonly name: string;
  /** What the store must declare for the case to apply; always, when absent. */
  readonly needs?: (capabilities: StoreCapabilities) => boolean;
  /** Judges a boundary to the millisecond, so it applies only to a clock that stands still. */
  readonly frozenClock?: true;
  run(context: CaseContext): Promise<void>;
}
