/**
 * The shipping service: receives orders from RabbitMQ, ships each, and reports it over NATS through its outbox. With
 * `SHIPPING_PART=worker` this process delivers the outbox, otherwise it ships.
 */
import { jetstream } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { createLatchkey } from "latchkey";
import { natsRelay } from "latchkey/nats";
import { postgresStore } from "latchkey/postgres";
import { rabbitmqConsumer } from "latchkey/rabbitmq";
import pg from "pg";
import { Connection } from "rabbitmq-client";
import { type Order, orderQueue, readOrder, readSettings, shippedSubject } from "./settings.ts";

const settings = readSettings(process.env);
const { run, chaos, rabbitmqUrl, natsUrl } = settings;
if (rabbitmqUrl === null || natsUrl === null) throw new TypeError("Set RABBITMQ_URL and NATS_URL");
/**
 * The number of shipments after which this process is killed under `CHAOS=1`. Counted instead of random, so that it happens
 * in every run.
 */
const lifetime = 30;
let executed = 0;

const pool = new pg.Pool({ connectionString: settings.databaseUrl, connectionTimeoutMillis: 3_000 });
pool.on("error", () => {});
const rabbit = new Connection({ url: rabbitmqUrl, retryLow: 200 });
rabbit.on("error", (error) => console.error(`RabbitMQ: ${error.message}`));
const nats = await connect({ servers: natsUrl, maxReconnectAttempts: -1 });

const latchkey = createLatchkey({
  store: postgresStore({ pool }),
  onEvent({ type }) {
    if (type === "replayed") console.log("duplicate");
    if (type !== "executed") return;
    executed += 1;
    // Right after the COMMIT, before the broker is notified: the worst moment.
    if (chaos && executed === lifetime) process.kill(process.pid, "SIGKILL");
  },
});
const shipped = natsRelay(latchkey, "orders.shipped", {
  jetstream: jetstream(nats),
  subject: (_order: Order) => shippedSubject(run),
});
/** Declares the queue on every connection: a RabbitMQ that is killed soon after the declaration may have lost it. */
const consumer = { queueOptions: { durable: true } };

/** Ships orders. */
function consume() {
  return rabbitmqConsumer(
    latchkey,
    latchkey.operation("shipments.create"),
    { connection: rabbit, queue: orderQueue(run), consumer, tenant: "shop", decode: readOrder },
    async ({ tx, attempt, input }) => {
      await tx.query("insert into shipments (order_id, run) values ($1, $2)", [input.id, run]);
      attempt.enqueue(shipped, input);
    },
  );
}

// One process can do both. Here the worker is separate, because deliveries of a killed worker wait for its lease.
if (process.env.SHIPPING_PART === "worker") latchkey.startWorker();
else consume();

// The parent process was killed.
process.once("disconnect", () => process.exit(1));
process.once("SIGTERM", async () => {
  await latchkey.close();
  await Promise.all([rabbit.close(), nats.close()]);
  process.exit(0);
});
