/** One death and what followed, as it was seen. */
import type { LatchkeyEvent } from "../../../packages/latchkey/src/index.ts";
import type { besides, Mode } from "./modes.ts";
import type { Seen } from "./observers.ts";
import type { Arrival } from "./other-side.ts";
import type { Point } from "./points.ts";
import type { Reply } from "./reply.ts";
import type { Order } from "./work.ts";

export interface Story {
  readonly kind: "story";
  readonly mode: Mode;
  readonly point: Point;
  readonly order: Order;
  /** Of all names that the order has at the other side, oldest first. */
  readonly arrivals: readonly Arrival[];
  /** How many of them had come when the process was dead. */
  readonly arrivedBefore: number;
  /** When the process was dead, and everything that had reached the server was done. */
  readonly wreck: Seen;
  /** When what comes late had not come; null: nothing was to come late. */
  readonly beforeLate: Seen | null;
  readonly end: Seen;
  /** Replies to clients of the order, in the order of their tries; the dead process's own client first. */
  readonly replies: readonly Reply[];
  /** How many of them came before anybody went on. */
  readonly repliesBefore: number;
  /** The reply to another client by the process that died, and the reply to its last retry. */
  readonly acknowledged: readonly [before: Reply, after: Reply];
  /** The same key with another order. */
  readonly misuse: Reply;
  /** What it has left behind; all zero. */
  readonly ofMisuse: Pick<Seen, "placed" | "settled"> & { readonly arrivals: number };
  /** Of those who went on. */
  readonly events: readonly LatchkeyEvent[];
  /** Steps that they ran. */
  readonly ran: readonly string[];
}

/** What was to be cleaned, and what was not. */
export type SeenAll = Readonly<Record<"own" | keyof typeof besides, Seen>>;

/** The death of a cleaner. */
export interface CleanedStory {
  readonly kind: "cleaned";
  readonly point: Point;
  readonly wreck: SeenAll;
  readonly end: SeenAll;
  readonly events: readonly LatchkeyEvent[];
}
