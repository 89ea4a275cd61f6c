/**
 * Deliveries and operations are independent of each other, but that a commit enqueues. So every schedule of both is one of
 * each, in some order, and they are explored apart where both together are too many (partial-order reduction, with two
 * parts). That they are independent is looked at in each call: one that touches nothing of the other part does and gets the
 * same in every world that has the same of its own.
 */
import type { Reading } from "../../../packages/latchkey/src/stores/life.ts";
import type { Ask } from "./ask.ts";
import { textOf } from "./text.ts";

/** One use that a call made of what is kept. */
export interface Touch {
  readonly kept: "rows" | "effects" | "tables" | "audit";
  readonly method: string;
  /** What it was called with first. */
  readonly what: unknown;
}

export const reachedApart = "a call touched its own part alone";

/** What must not be; null: the call has to do with its own part alone. */
export function judgeApart({ actor, port, args }: Ask, touched: readonly Touch[]): string | null {
  const isForeign = isDispatcher(actor)
    ? // Of what it finds there it gets the store's time alone.
      ({ kept, method }: Touch) => kept !== "effects" && !(port === "read" && method === "record")
    : ({ kept, what }: Touch) => kept === "effects" && !textOf(args).includes(idOf(what));
  const foreign = touched.find(isForeign);
  return foreign === undefined ? null : `apart: ${port} of ${actor} uses ${foreign.kept}.${foreign.method}`;
}

/** Of an effect: an operation may look for those that it brings itself, and write them. */
function idOf(what: unknown): string {
  if (typeof what === "string") return textOf(what);
  const { effect } = (what ?? {}) as { readonly effect?: { readonly id: string } };
  return effect === undefined ? "none that is named" : textOf(effect.id);
}

function isDispatcher(actor: string): boolean {
  return actor.startsWith("dispatcher");
}

/** What a dispatcher gets of a record that it looks up: it does so to learn the store's time, and gets no more. */
export class TimeAlone {
  readonly now: number;

  constructor({ now }: Pick<Reading, "now">) {
    this.now = now;
  }

  get record(): never {
    throw new Error("harness: a dispatcher looks into a record");
  }
}

export function visibleTo({ actor, port }: Pick<Ask, "actor" | "port">, value: unknown): unknown {
  return isDispatcher(actor) && port === "read" ? new TimeAlone(value as Reading) : value;
}

/** The same thing, which tells of each of its methods that is called. */
export function watched<T extends object>(kept: Touch["kept"], thing: T, touched: Touch[]): T {
  return new Proxy(thing, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      return (...args: readonly unknown[]) => {
        touched.push({ kept, method: String(name), what: args[0] });
        return Reflect.apply(value, target, args);
      };
    },
  });
}
