/**
 * Orders travel to shipping over RabbitMQ, what was shipped comes back over NATS. With `CHAOS=1` messages are sent twice and
 * shipping is killed at the worst moments. What is printed at the end was read from the tables. Exits with 0 only when every
 * order was shipped exactly once.
 */
import { setTimeout as pause } from "node:timers/promises";
import { AckPolicy, jetstreamManager, RetentionPolicy } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { migratePostgres } from "latchkey/postgres";
import pg from "pg";
import { Connection } from "rabbitmq-client";
import { type Brokers, startOrders } from "./orders.ts";
import { orderQueue, readSettings, shippedSubject, tables } from "./settings.ts";
import { Shippers } from "./shippers.ts";

const settings = readSettings(process.env);
const { run, orders: count, chaos } = settings;
const limitMs = 120_000;
/** So many messages in a hundred are sent a second time. */
const repeatedPercent = 20;

const pool = new pg.Pool({ connectionString: settings.databaseUrl });
pool.on("error", (error) => console.error(`Lost a database connection: ${error.message}`));
await migratePostgres(pool);
await pool.query(tables);
const rabbit = new Connection({ url: settings.rabbitmqUrl, retryLow: 200 });
rabbit.on("error", (error) => console.error(`RabbitMQ: ${error.message}`));
const nats = await connect({ servers: settings.natsUrl, maxReconnectAttempts: -1 });
await declare({ rabbit, nats });

const shippers = new Shippers(run);
shippers.start(2);
const service = await startOrders(pool, { rabbit, nats }, run);
console.log(`Placing ${count} orders, ${chaos ? "with" : "without"} chaos …`);
const again = rabbit.createPublisher({ confirm: true, maxAttempts: 10 });
for (let id = 1; id <= count; id += 1) {
  const order = { id, product: `product-${id % 7}` };
  const messageId = await service.place(order);
  if (!chaos || id % 100 >= repeatedPercent) continue;
  await service.place(order);
  await again.send(
    { routingKey: orderQueue(run), messageId, durable: true, contentType: "application/json" },
    Buffer.from(JSON.stringify(order)),
  );
}
const done = await allShipped();
await shippers.stop();
await service.stop();
process.exitCode = (await report()) && done ? 0 : 1;
await again.close();
await Promise.all([
  rabbit.queueDelete(orderQueue(run)),
  (await jetstreamManager(nats)).streams.delete(shippedSubject(run)),
]);
await Promise.all([rabbit.close(), nats.close(), pool.end()]);

async function declare(brokers: Brokers): Promise<void> {
  await brokers.rabbit.queueDeclare({ queue: orderQueue(run), durable: true });
  const manager = await jetstreamManager(brokers.nats);
  const name = shippedSubject(run);
  await manager.streams.add({ name, subjects: [name], retention: RetentionPolicy.Workqueue });
  await manager.consumers.add(name, { durable_name: "orders", ack_policy: AckPolicy.Explicit });
}

/** Every order is marked as shipped, and nothing waits in the queue. */
async function allShipped(): Promise<boolean> {
  for (const until = Date.now() + limitMs; Date.now() < until; await pause(50)) {
    const { rows } = await pool.query(
      "select count(*)::int as n from orders where run = $1 and shipped > 0",
      [run],
    );
    const { messageCount } = await rabbit.queueDeclare({ queue: orderQueue(run), passive: true });
    if (rows[0]?.n === count && messageCount === 0) return true;
  }
  return false;
}

async function report(): Promise<boolean> {
  const { rows } = await pool.query(
    `select (select count(*)::int from orders where run = $1) as orders,
      (select count(*)::int from shipments where run = $1) as shipments,
      (select count(distinct order_id)::int from shipments where run = $1) as shipped,
      (select coalesce(sum(shipped - 1), 0)::int from orders where run = $1 and shipped > 1) as marked_twice`,
    [run],
  );
  const { orders, shipments, shipped, marked_twice: markedTwice } = rows[0];
  const executedTwice = shipments - shipped + markedTwice;
  console.log(`orders placed         ${orders}`);
  console.log(`shipments             ${shipments}`);
  console.log(`shipping killed       ${shippers.deaths}`);
  console.log(`duplicates seen       ${shippers.duplicates + service.duplicates()}`);
  console.log(`duplicates executed   ${executedTwice}`);
  return orders === count && shipped === count && executedTwice === 0;
}
