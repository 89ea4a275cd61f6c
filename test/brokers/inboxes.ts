/** A queue of its own on a real broker, with a real database and consumers in processes of their own. */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import type pg from "pg";
import {
  createLatchkey,
  type InboxOptions,
  type Latchkey,
  type MessageHandler,
  type Operation,
} from "../../packages/latchkey/src/index.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { committedRows } from "../postgres/harness.ts";
import type { Broker } from "../support/private-brokers.ts";
import { spawnWorker, type WorkerProcess } from "../support/processes.ts";
import { onRelease } from "../support/resources.ts";
import { until } from "../support/until.ts";
import type { ConsumerSettings, Order } from "./consumer-process.ts";
import type { BrokerClient, BrokerDriver, Sent } from "./driver.ts";

const script = join(import.meta.dirname, "consumer-process.ts");

export interface BrokerLab {
  readonly broker: Broker;
  readonly url: string;
  readonly pool: pg.Pool;
  readonly databaseUrl: string;
}

export function order(name: string, trap?: Order["trap"]): Sent {
  return { id: name, body: trap === undefined ? { order: name } : { order: name, trap } };
}

export type Inboxes = Awaited<ReturnType<typeof startInboxes>>;

export async function startInboxes(
  driver: BrokerDriver,
  { url, pool, databaseUrl, broker }: BrokerLab,
  batchSize: number | undefined,
) {
  const batches = batchSize === undefined ? {} : { batchSize };
  await pool.query("delete from business; delete from latchkey.records; delete from latchkey.messages");
  const queue = `orders-${randomUUID()}`;
  const client: BrokerClient = await driver.connect(url, queue);
  // Else it goes on connecting to the port of a server that is gone, where a test of another file may listen by now.
  onRelease(() => client.close());
  await client.declare();
  const store = postgresStore({ pool, notify: false });
  const latchkey: Latchkey<pg.PoolClient> = createLatchkey({ store }) as never;
  const operation: Operation<"transaction"> = latchkey.operation("shipments.create");
  return {
    driver,
    queue,
    client,
    broker,
    wrote: async () => broker.own?.wrote(queue),
    left: () => client.left(),
    publish: client.publish,
    rows: () => committedRows(pool),
    dead: async () => {
      const everything = { operation: null, tenant: null, limit: 100, after: null };
      return (await store.messages?.list(everything)) ?? [];
    },
    consume: (
      handler: MessageHandler<pg.PoolClient, "transaction", Order>,
      options: Partial<InboxOptions<Order>> & { readonly size?: number } = {},
    ) =>
      client.consume(
        latchkey,
        operation,
        { tenant: "shop", decode: decodeOrder, backoffMs: 50, failuresMax: 3, ...batches, ...options },
        handler,
      ),
    async spawn(change: Partial<ConsumerSettings> = {}): Promise<WorkerProcess> {
      const settings: ConsumerSettings = {
        broker: driver.name,
        url,
        queue,
        databaseUrl,
        ...batches,
        ...change,
      };
      const worker = spawnWorker(script, { args: [JSON.stringify(settings)] });
      await worker.ready(30_000);
      return worker;
    },
  };
}

function decodeOrder({ body }: { readonly body: Uint8Array }): Order {
  const value = JSON.parse(Buffer.from(body).toString()) as Order;
  if (typeof value.order !== "string") throw new TypeError("an order has a name");
  return value;
}

export async function deadWithin(dead: Inboxes["dead"]): Promise<false> {
  await until(async () => (await dead()).length > 0, { timeoutMs: 60_000 });
  return false;
}

/**
 * Waits until nothing is left, stops the consumer gracefully, and answers what it has counted. What RabbitMQ has handed out is
 * not left, so whoever counts waits for it first: a consumer that stops gives back what it has not begun.
 */
export async function finish(worker: WorkerProcess, left: () => Promise<number>) {
  await until(async () => (await left()) === 0, { what: "the queue is empty", timeoutMs: 30_000 });
  await worker.kill("SIGTERM");
  const counted = worker.lines.find((line) => line.counts !== undefined);
  if (counted === undefined) throw new Error(`no counts: ${worker.stderr()}`);
  return counted.counts as Record<string, number>;
}
