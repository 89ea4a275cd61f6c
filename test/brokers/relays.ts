/** What a relay must do: publish what was enqueued, under an id that stays the same, and take no for no answer. */
import { randomUUID } from "node:crypto";
import {
  createLatchkey,
  type Effect,
  effectDispatcher,
  type Latchkey,
} from "../../packages/latchkey/src/index.ts";
import { memoryStore } from "../../packages/latchkey/src/stores/memory.ts";

export interface Announced {
  readonly order: string;
}

/** A latchkey in memory whose outbox is worked off by hand: `define` makes the relay on it. */
export function startRelays(define: (latchkey: Latchkey<never>) => Effect<Announced, null>) {
  let nowMs = Date.now();
  const store = memoryStore({ now: () => nowMs });
  const latchkey = createLatchkey({ store });
  const effect = define(latchkey as never);
  const operation = latchkey.operation("orders.create", { writes: "none" });
  const dispatcher = effectDispatcher(latchkey);
  return {
    /** The message's id. */
    async place(order: string, aggregate?: string): Promise<string> {
      let key = "";
      const request = { tenant: "shop", key: randomUUID(), input: order };
      await latchkey.run(operation, request, async ({ attempt }) => {
        key = attempt.enqueue(effect, { order }, aggregate === undefined ? {} : { aggregate }).key;
      });
      return key;
    },
    /** One round, an hour after the one before: every pause is over. */
    async dispatch() {
      nowMs += 3_600_000;
      return dispatcher.runOnce();
    },
  };
}
