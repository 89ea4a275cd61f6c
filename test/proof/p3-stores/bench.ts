/** A store as this tier drives it: empty for each sequence, under a clock that is moved, with a table of handlers' rows. */
import type { Clock } from "../../../packages/latchkey/src/ports.ts";
import type { Store } from "../../../packages/latchkey/src/stores/store.ts";

/** One store in one sequence. */
export interface Subject {
  readonly name: string;
  readonly store: Store<unknown>;
  /** Moves the store's own time, to milliseconds since the Unix epoch. */
  setTime(ms: number): Promise<void>;
  /** A handler's write, through the `tx` that it was given. */
  write(tx: unknown, row: string): Promise<void>;
  /** What handlers have written and committed, oldest first. */
  rows(): Promise<readonly string[]>;
  /** Gives back what the store holds. */
  end(): Promise<void>;
}

/** A database that is used by one sequence after the other. */
export interface Bench {
  readonly name: string;
  readonly version: string;
  /** Empties it. The store's time begins at the clock's wall time. */
  begin(clock: Clock): Promise<Subject>;
  close(): Promise<void>;
}

/** What a lane of the tier may use; JSON, so that it can be sent to a thread. */
export interface Place {
  /** Part of the names that must not meet those of other lanes. */
  readonly lane: number;
  /** Options for `pg`; null: there is no server. */
  readonly postgres: {
    readonly host: string;
    readonly port: number;
    readonly user: string;
    readonly database: string;
  } | null;
}

export interface StoreKind {
  readonly name: string;
  /** Null: what it needs is not there. */
  open(place: Place): Promise<Bench | null>;
}
