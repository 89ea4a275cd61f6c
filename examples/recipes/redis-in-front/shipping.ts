/**
 * The other end of the queue: each order is shipped once, however often its message arrives.
 * DATABASE_URL=postgres://… RABBITMQ_URL=amqp://… node shipping.ts
 */
import { createLatchkey } from "latchkey";
import { migratePostgres, postgresStore } from "latchkey/postgres";
import { rabbitmqConsumer } from "latchkey/rabbitmq";
import pg from "pg";
import { Connection } from "rabbitmq-client";

const { DATABASE_URL: connectionString, RABBITMQ_URL = "amqp://localhost" } = process.env;
const pool = new pg.Pool({ ...(connectionString && { connectionString }), connectionTimeoutMillis: 3_000 });
pool.on("error", (error) => console.error(`Postgres: ${error.message}`));
const rabbit = new Connection({ url: RABBITMQ_URL });
rabbit.on("error", (error) => console.error(`RabbitMQ: ${error.message}`));

await migratePostgres(pool);
await pool.query("create table if not exists shipments (order_id integer not null)");

const latchkey = createLatchkey({
  store: postgresStore({ pool }),
  onEvent(event) {
    if (event.type === "executed") console.log("shipped");
    if (event.type === "replayed") console.log("a duplicate: acknowledged, not shipped");
    if (event.type === "message_dead") console.error("dead letter", event.because);
  },
});
rabbitmqConsumer(
  latchkey,
  latchkey.operation("shipments.create"),
  { connection: rabbit, queue: "orders", consumer: { queueOptions: { durable: true } }, tenant: "shop" },
  async ({ tx, input }) => {
    await tx.query("insert into shipments (order_id) values ($1)", [(input as { id: number }).id]);
  },
);
console.log("waiting for orders");

process.once("SIGTERM", async () => {
  await latchkey.close(); // stops the consumer too
  await Promise.all([rabbit.close(), pool.end()]);
});
