/**
 * Orders that are placed, published by a relay and shipped from an inbox while nodes die. What was placed and what was shipped
 * are two tables without any constraint: the ledger that is asked afterwards.
 */
import { setTimeout as pause } from "node:timers/promises";
import type pg from "pg";
import { expect } from "vitest";
import {
  createLatchkey,
  type Effect,
  type Latchkey,
  type MessageConsumer,
  type MessageHandler,
  type Operation,
} from "../../packages/latchkey/src/index.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { migratedDatabase, openPool } from "../postgres/harness.ts";
import { onRelease } from "../support/resources.ts";
import { until } from "../support/until.ts";

export interface Order {
  readonly order: number;
}

type ShopLatchkey = Latchkey<pg.PoolClient>;
type Ship = MessageHandler<pg.PoolClient, "transaction", Order>;

/** The broker's side. */
export interface OrderQueue {
  relay(latchkey: ShopLatchkey): Effect<Order, null>;
  consume(latchkey: ShopLatchkey, operation: Operation<"transaction">, ship: Ship): Promise<MessageConsumer>;
  /** Publishes a message that may be there already once more. */
  copy(id: string, order: Order): Promise<unknown>;
}

/** Orders in a second, on a machine that keeps up: enough to be under way at every moment, few enough for a busy machine. */
const paceMs = 20;
/** So many orders later, past the time in which a broker knows a copy by itself. */
const copyAfter = 25;
const patience = { timeoutMs: 60_000, intervalMs: 20 } as const;

/** Customers order one after the other, every fifth order twice, and every fifth message is sent twice, until `close`. */
export async function openShop(queue: OrderQueue) {
  const databaseUrl = await migratedDatabase();
  const pool = openPool(databaseUrl);
  await pool.query("create table placed (number int); create table shipped (number int)");
  const latchkey: ShopLatchkey = createLatchkey({ store: postgresStore({ pool }) }) as never;
  const effect = queue.relay(latchkey);
  const consumer = await queue.consume(latchkey, latchkey.operation("orders.ship"), async ({ tx, input }) => {
    await tx.query("insert into shipped values ($1)", [input.order]);
  });
  latchkey.startWorker();
  onRelease(async () => void (await latchkey.close()));

  const create = latchkey.operation("orders.create");
  const place = (order: number) =>
    latchkey.run(
      create,
      { tenant: "shop", key: `order-${order}`, input: { order } },
      async ({ tx, attempt }) => {
        await tx.query("insert into placed values ($1)", [order]);
        return { id: attempt.enqueue(effect, { order }).key };
      },
    );
  const ids: string[] = [];
  let orders = 0;
  let open = true;
  const customers = (async () => {
    for (; open; await pause(paceMs)) {
      const order = ++orders;
      const placed = await place(order);
      if (placed.kind === "executed") ids.push(placed.value.id);
      if (order <= copyAfter || order % 5 !== 0) continue;
      expect((await place(order)).kind).toBe("replay");
      const earlier = order - copyAfter;
      void queue.copy(ids[earlier - 1] ?? "", { order: earlier }).catch(() => {});
    }
  })();
  // Its failure is that of `close`.
  customers.catch(() => {});

  const numbers = async (table: "placed" | "shipped") => {
    const { rows } = await pool.query<{ number: number }>(`select number from ${table} order by number`);
    return rows.map(({ number }) => number);
  };
  /** Resolves when an order that is placed from now on has been shipped; answers after how many seconds. */
  const secondsUntilShipped = async () => {
    const [beganMs, last] = [performance.now(), orders];
    await until(async () => ((await numbers("shipped")).at(-1) ?? 0) > last, {
      what: `an order after ${last} is shipped`,
      ...patience,
    });
    return (performance.now() - beganMs) / 1_000;
  };
  return {
    placed: () => orders,
    secondsUntilShipped,
    /** Stops ordering, and compares when all is shipped. */
    async close() {
      open = false;
      await customers;
      const all = Array.from({ length: orders }, (_, index) => index + 1);
      await until(async () => new Set(await numbers("shipped")).size === orders, {
        what: "every order is shipped",
        ...patience,
      });
      const haveCopiesCome = async () =>
        consumer.counts().duplicates > 0 || (await numbers("shipped")).length > orders;
      await until(haveCopiesCome, { what: "copies have come", ...patience });
      await latchkey.close();
      expect(await numbers("placed")).toEqual(all);
      expect(await numbers("shipped")).toEqual(all);
      return { orders, duplicates: consumer.counts().duplicates };
    },
  };
}
