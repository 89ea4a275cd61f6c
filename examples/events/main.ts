/**
 * Orders travel to shipping over RabbitMQ, and shipments are reported back over NATS. With `CHAOS=1` messages are sent twice,
 * shipping is killed at the worst moments, and so are the brokers if they were started for this run. The report at the end is
 * read from the tables. Exits with 0 only if every order was shipped exactly once.
 */
import { AckPolicy, jetstreamManager, RetentionPolicy } from "@nats-io/jetstream";
import { connect, nanos } from "@nats-io/transport-node";
import { migratePostgres } from "latchkey/postgres";
import pg from "pg";
import { Connection } from "rabbitmq-client";
import { type Brokers, brokersOf, killBrokers } from "./brokers.ts";
import { type Connections, startOrders } from "./orders.ts";
import { Progress } from "./progress.ts";
import { orderQueue, readSettings, shippedSubject, tables } from "./settings.ts";
import { Shippers } from "./shippers.ts";

const settings = readSettings(process.env);
const { run, orders: count, chaos } = settings;
/** The percentage of messages that are sent a second time. */
const repeatedPercent = 20;
/** How long NATS waits for an acknowledgement before it delivers again. */
const ackWaitMs = 10_000;

const brokers = await brokersOf(settings);
if (brokers === null) process.exitCode = 2;
else await runWith(brokers).finally(() => brokers.release());

async function runWith(brokers: Brokers): Promise<void> {
  const pool = new pg.Pool({ connectionString: settings.databaseUrl, connectionTimeoutMillis: 3_000 });
  pool.on("error", (error) => console.error(`Lost a database connection: ${error.message}`));
  await migratePostgres(pool);
  await pool.query(tables);
  const rabbit = new Connection({ url: brokers.rabbitmq.url, retryLow: 200 });
  rabbit.on("error", (error) => console.error(`RabbitMQ: ${error.message}`));
  const nats = await connect({ servers: brokers.nats.url, maxReconnectAttempts: -1 });
  await declare({ rabbit, nats });
  // If it were killed earlier, it would have lost its queue, and confirmed messages with it.
  if (chaos) await brokers.rabbitmq.own?.wrote(orderQueue(run));

  const shippers = new Shippers(run, { RABBITMQ_URL: brokers.rabbitmq.url, NATS_URL: brokers.nats.url });
  shippers.start(2);
  const service = await startOrders(pool, { rabbit, nats }, run);
  const progress = new Progress(pool, rabbit, settings);
  console.log(`Placing ${count} orders, ${chaos ? "with" : "without"} chaos …`);
  const killing = chaos ? killBrokers(brokers, (percent) => progress.shipped(percent)) : 0;
  await place(service, rabbit);
  const kills = await killing;
  const done = await progress.allMarked();
  await shippers.stop();
  await service.stop();
  const duplicates = shippers.duplicates + service.duplicates();
  const isOnce = await progress.report({ deaths: shippers.deaths, kills, duplicates });
  process.exitCode = done && isOnce ? 0 : 1;
  await rabbit.queueDelete(orderQueue(run));
  await (await jetstreamManager(nats)).streams.delete(shippedSubject(run));
  await Promise.all([rabbit.close(), nats.close(), pool.end()]);
}

async function declare({ rabbit, nats }: Connections): Promise<void> {
  await rabbit.queueDeclare({ queue: orderQueue(run), durable: true });
  const manager = await jetstreamManager(nats);
  const name = shippedSubject(run);
  await manager.streams.add({ name, subjects: [name], retention: RetentionPolicy.Workqueue });
  const consumer = { durable_name: "orders", ack_policy: AckPolicy.Explicit, ack_wait: nanos(ackWaitMs) };
  await manager.consumers.add(name, consumer);
}

/** Under chaos some orders are placed twice, and their messages are sent twice. */
async function place(service: Awaited<ReturnType<typeof startOrders>>, rabbit: Connection): Promise<void> {
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
  await again.close();
}
