/**
 * Redis in front, outbox behind: replays come from Redis, the truth is in Postgres, and RabbitMQ gets each order once.
 * DATABASE_URL=postgres://… REDIS_URL=redis://… RABBITMQ_URL=amqp://… node service.ts
 */
import { mkdir, writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import express, { type Request } from "express";
import { createLatchkey } from "latchkey";
import { cached, cacheWarmer } from "latchkey/cached";
import { expressProtect, keepRawBody } from "latchkey/express";
import { migratePostgres, postgresStore } from "latchkey/postgres";
import { rabbitmqRelay } from "latchkey/rabbitmq";
import pg from "pg";
import { Connection } from "rabbitmq-client";
import { createClient } from "redis";

const { DATABASE_URL: connectionString, PORT = "3000", BENCH } = process.env;
const { REDIS_URL = "redis://localhost:6379", RABBITMQ_URL = "amqp://localhost" } = process.env;
const day = 24 * 60 * 60 * 1000;

const pool = new pg.Pool({ ...(connectionString && { connectionString }), connectionTimeoutMillis: 3_000 });
pool.on("error", (error) => console.error(`Postgres: ${error.message}`));
// Without its queue, a command fails at once while Redis is unavailable, and the database is used.
const redis = createClient({ url: REDIS_URL, disableOfflineQueue: true });
redis.on("error", (error) => console.error(`Redis: ${error.message}`));
redis.connect().catch(() => {}); // reported above; the client keeps trying
const rabbit = new Connection({ url: RABBITMQ_URL });
rabbit.on("error", (error) => console.error(`RabbitMQ: ${error.message}`));

await migratePostgres(pool); // in production: npx latchkey migrate, before the processes start
await pool.query(`
  create table if not exists orders (
    id integer generated always as identity primary key, account text not null, item text not null)`);

const store = cached(postgresStore({ pool }), redis);
const latchkey = createLatchkey({
  store,
  onEvent(event) {
    if (event.type === "attempt_failed") console.error(event.recordId, event.error);
    if (event.type === "taken_over") console.log("taken over", event.recordId);
  },
});
const warm = cacheWarmer(latchkey, store);
const orderCreated = rabbitmqRelay(latchkey, "orders.created", {
  connection: rabbit,
  route: (_order: { id: number; item: string }) => ({ exchange: "", routingKey: "orders" }),
});
// Replayed for 30 days; Redis keeps copies for a day at most.
const createOrder = latchkey.operation("orders.create", { retentionMs: 30 * day });
// Writing a file twice does no harm, so a dead attempt is taken over once its lease has ended.
const createInvoice = latchkey.operation("invoices.create", {
  execution: "lease",
  leaseEnd: "rerun",
  leaseMs: 5_000,
});

/** A placeholder for your authentication. */
const accounts = new Map([["acme-token", "acme"]]);
const accountOf = (req: Request) => accounts.get(req.get("authorization")?.replace("Bearer ", "") ?? "");
const protect = expressProtect(latchkey, { tenant: accountOf, inProgress: 429 });

const app = express().use(express.json({ verify: keepRawBody }));
app.use((req, res, next) => {
  if (accountOf(req) === undefined) res.status(401).json({ error: "who are you?" });
  else next();
});

const insertOrder = "insert into orders (account, item) values ($1, $2) returning id, item";

app.post(
  "/orders",
  protect(createOrder, async (req, res, { tx, attempt }) => {
    const { item } = req.body ?? {};
    if (typeof item !== "string") {
      attempt.release(); // nothing happened: the key may be used again
      res.status(400).json({ error: "item must be a text" });
      return;
    }
    const { rows } = await tx.query(insertOrder, [accountOf(req), item]);
    attempt.enqueue(orderCreated.effect, rows[0]); // to RabbitMQ
    attempt.enqueue(warm, attempt.record); // to Redis
    res.status(201).json(rows[0]);
  }),
);

app.post(
  "/invoices",
  protect(createInvoice, async (req, res) => {
    const order = Number(req.body?.order);
    await mkdir("invoices", { recursive: true });
    await writeFile(`invoices/${order}.txt`, `Invoice for order ${order}\n`);
    res.status(201).json({ invoice: `invoices/${order}.txt` });
  }),
);

if (BENCH) {
  // Only for comparison: the same work without a key.
  app.post("/orders/plain", async (req, res) => {
    const { rows } = await pool.query(insertOrder, [accountOf(req), req.body.item]);
    res.status(201).json(rows[0]);
  });
}

latchkey.startWorker(); // delivers the outbox, takes up what has died, forgets what is past its time
const server = app.listen(Number(PORT), () => {
  console.log(`listening on port ${(server.address() as AddressInfo).port}`);
});

process.once("SIGTERM", async () => {
  server.close();
  server.closeIdleConnections();
  await latchkey.close();
  await Promise.all([orderCreated.close(), pool.end()]);
  await rabbit.close();
  redis.destroy();
});
