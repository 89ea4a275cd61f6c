/** What a scenario is made of. */
import type pg from "pg";
import type { RecordKey } from "../../../packages/latchkey/src/engine/record.ts";
import type { Latchkey } from "../../../packages/latchkey/src/latchkey.ts";
import type { IsolationLevel } from "../../../packages/latchkey/src/sql/transaction.ts";
import type { PostgresStore } from "../../../packages/latchkey/src/stores/postgres.ts";
import type { CountedRandom, ProcessClock } from "./process-ports.ts";
import type { Seen } from "./seen.ts";
import type { Tally } from "./tally.ts";

export type Tx = Omit<pg.PoolClient, "release">;

/** A process with its own pool, store and clock. */
export interface Session {
  readonly index: number;
  readonly pool: pg.Pool;
  readonly store: PostgresStore<Tx>;
  readonly clock: ProcessClock;
  readonly random: CountedRandom;
}

/** What befalls a flight, at most once in an interleaving. */
export type FaultKind =
  /** Its backend is ended: before a statement, between two of a pipeline, or while it waits for a lock. */
  | "killed"
  /** The last reply of something that commits never comes. */
  | "reply_lost"
  /** The client gives up, and its bytes arrive later, or never. */
  | "late";

export const faultKinds: readonly FaultKind[] = ["killed", "reply_lost", "late"];

/** One interleaving's world. */
export interface World {
  readonly key: RecordKey;
  readonly sessions: readonly Session[];
  /** The isolation level of this run: of transactions that ask for one, and the sessions' default. */
  readonly isolation: IsolationLevel;
  /** The business table: key, life, by. It has no constraint. */
  readonly business: string;
  readonly tally: Tally;
  /** The store's time. */
  nowMs(): number;
  /** A fresh one, which remembers nothing. */
  latchkey(session: Session): Latchkey<Tx>;
  /** Moves the store's time on. */
  pass(ms: number): Promise<void>;
  /** A number that is larger than those before it. */
  next(): number;
  /** A number from 1 to `max`, chosen before anything happens; the same when the interleaving is repeated. */
  pick(what: string, max: number): number;
}

/** Whoever does something on its own. */
export interface Actor {
  readonly name: string;
  run(): Promise<unknown>;
}

/** Something that can happen once, at any time. */
export interface Moment {
  readonly name: string;
  /** Not before that one. */
  readonly after?: string;
  happen(): Promise<void> | void;
}

export interface Cast {
  readonly actors: readonly Actor[];
  readonly moments: readonly Moment[];
  /** Everything is over, and nothing is held any more: what a client or a worker does next. */
  aftermath?(): Promise<void>;
  /**
   * What must not be, each with the invariant that it breaks.
   *
   * @param fault what befell it; null: nothing did
   */
  check(seen: Seen, fault: FaultKind | null): Promise<readonly string[]>;
}

export interface Scenario {
  readonly name: string;
  /** What happens in it, for the report. */
  readonly about: string;
  readonly isolations: readonly IsolationLevel[];
  readonly faults: readonly FaultKind[];
  /** Their handlers lock rows of their own in different orders. */
  readonly handlersCross?: true;
  arrange(world: World): Promise<Cast>;
}

export const everyIsolation: readonly IsolationLevel[] = [
  "read committed",
  "repeatable read",
  "serializable",
];
