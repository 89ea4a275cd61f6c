/** The progress and the result of a run, read from the tables. */
import { setTimeout as pause } from "node:timers/promises";
import type pg from "pg";
import type { Connection } from "rabbitmq-client";
import { orderQueue, type Settings } from "./settings.ts";

const limitMs = 120_000;

/** What the tables do not contain. */
export interface Accidents {
  readonly deaths: number;
  readonly kills: number;
  readonly duplicates: number;
}

export class Progress {
  readonly #pool: pg.Pool;
  readonly #rabbit: Connection;
  readonly #settings: Settings;

  constructor(pool: pg.Pool, rabbit: Connection, settings: Settings) {
    this.#pool = pool;
    this.#rabbit = rabbit;
    this.#settings = settings;
  }

  /** Waits until this percentage of orders is shipped. */
  async shipped(percent: number): Promise<void> {
    await until(async () => {
      const { shipped } = await this.#counts();
      return shipped * 100 >= this.#settings.orders * percent;
    });
  }

  /** Waits until every order is marked as shipped and the queue is empty. False: it took too long. */
  async allMarked(): Promise<boolean> {
    const { run, orders } = this.#settings;
    return until(async () => {
      const { marked } = await this.#counts();
      if (marked < orders) return false;
      const { messageCount } = await this.#rabbit.queueDeclare({ queue: orderQueue(run), passive: true });
      return messageCount === 0;
    });
  }

  /** Prints the report. True: each order was shipped and marked once. */
  async report({ deaths, kills, duplicates }: Accidents): Promise<boolean> {
    const { orders, shipments, shipped, markedTwice } = await this.#counts();
    const executedTwice = shipments - shipped + markedTwice;
    console.log(`orders placed         ${orders}`);
    console.log(`shipments             ${shipments}`);
    console.log(`shipping killed       ${deaths}`);
    console.log(`brokers killed        ${kills}`);
    console.log(`duplicates seen       ${duplicates}`);
    console.log(`duplicates executed   ${executedTwice}`);
    const all = this.#settings.orders;
    return orders === all && shipped === all && executedTwice === 0;
  }

  async #counts(): Promise<Counts> {
    const { rows } = await this.#pool.query<Counts>(
      `select (select count(*)::int from orders where run = $1) as orders,
        (select count(*)::int from orders where run = $1 and shipped > 0) as marked,
        (select coalesce(sum(shipped - 1), 0)::int from orders where run = $1 and shipped > 1) as "markedTwice",
        (select count(*)::int from shipments where run = $1) as shipments,
        (select count(distinct order_id)::int from shipments where run = $1) as shipped`,
      [this.#settings.run],
    );
    if (rows[0] === undefined) throw new Error("the count returned no row");
    return rows[0];
  }
}

interface Counts {
  readonly orders: number;
  readonly marked: number;
  readonly markedTwice: number;
  readonly shipments: number;
  /** Orders that have a shipment. */
  readonly shipped: number;
}

async function until(isSo: () => Promise<boolean>): Promise<boolean> {
  for (const end = Date.now() + limitMs; Date.now() < end; await pause(50)) {
    // If a broker is down, ask again.
    if (await isSo().catch(() => false)) return true;
  }
  return false;
}
