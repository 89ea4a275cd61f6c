/** The recipe "Redis in front, outbox behind" on a real Postgres, Redis and RabbitMQ, with kills and duplicates at bad moments. */
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { Connection } from "rabbitmq-client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Broker, startRabbitmq } from "../../support/private-brokers.ts";
import { type PrivateRedis, startRedis } from "../../support/private-redis.ts";
import { type FreshDatabase, freshDatabase } from "../../support/shared-postgres.ts";
import { until } from "../../support/until.ts";
import { lockTable, recipeFolder, startRecipe, startScript } from "./recipe.ts";

let database: FreshDatabase;
let pool: pg.Pool;
let redis: PrivateRedis | undefined;
let rabbitmq: Broker | undefined;
let env: Record<string, string>;

beforeAll(async () => {
  [database, redis, rabbitmq] = await Promise.all([freshDatabase(), startRedis(), startRabbitmq()]);
  pool = new pg.Pool({ connectionString: database.url });
  env = { DATABASE_URL: database.url, REDIS_URL: redis?.url ?? "", RABBITMQ_URL: rabbitmq?.url ?? "" };
});

afterAll(async () => {
  await pool.end();
  await database.drop();
  await redis?.stop();
  await rabbitmq?.own?.stop();
});

const service = (cwd?: string) => startRecipe("redis-in-front/service.ts", env, cwd);

async function count(sql: string, values: readonly unknown[] = []): Promise<number> {
  const { rows } = await pool.query(`select count(*)::int as count from ${sql}`, [...values]);
  return rows[0].count;
}

test("the process dies while RabbitMQ has no queue for the order: the next one sends it", async (context) => {
  if (redis === undefined || rabbitmq === undefined) return context.skip("Redis or RabbitMQ is missing");
  const first = await service();
  const order = await first.post("/orders", "order-0", { item: "ladle" });
  await first.worker.kill("SIGKILL");
  const shipping = startScript("redis-in-front/shipping.ts", env);
  await shipping.line(({ text }) => text === "waiting for orders", 60_000);
  await service();
  const { id } = JSON.parse(order.body);
  await until(async () => (await count("shipments where order_id = $1", [id])) === 1, { timeoutMs: 90_000 });
});

test("an order is replayed from Redis, and its message that comes twice is shipped once", async (context) => {
  if (redis === undefined || rabbitmq === undefined) return context.skip("Redis or RabbitMQ is missing");
  const shipping = startScript("redis-in-front/shipping.ts", env);
  const shop = await service();
  // No copies of earlier orders: the next one in Redis is this order's.
  const left = "latchkey.outbox where state <> 'delivered'";
  await until(async () => (await count(left)) === 0, { timeoutMs: 90_000 }); // claims of the killed one last 30 s
  await redis.admin("FLUSHDB");
  const first = await shop.post("/orders", "order-1", { item: "teapot" });
  expect(first).toMatchObject({ status: 201, replayed: false });
  const { id } = JSON.parse(first.body);

  await until(async () => Number(await redis?.admin("DBSIZE")) > 0, { what: "the copy is in Redis" });
  const free = await lockTable(database.url, "latchkey.records");
  // A Redis that takes longer than 50 ms is passed over, and the database cannot answer now.
  const replay = await until(async () => {
    const answer = await shop.post("/orders", "order-1", { item: "teapot" });
    return answer.status === 201 ? answer : undefined;
  });
  expect(replay).toMatchObject({ replayed: true, body: first.body });
  await free();
  expect((await shop.post("/orders", "order-1", { item: "saucer" })).status).toBe(422);

  await shipping.line(({ text }) => text === "shipped", 60_000);
  const { rows } = await pool.query(
    `select downstream_key from latchkey.outbox
     where aggregatetype = 'orders.created' and record_id = (select id from latchkey.records where key = 'order-1')`,
  );
  const rabbit = new Connection({ url: rabbitmq.url });
  const publisher = rabbit.createPublisher({ confirm: true });
  await publisher.send(
    { routingKey: "orders", messageId: rows[0].downstream_key, durable: true },
    { id, item: "teapot" },
  );
  await publisher.close();
  await rabbit.close();
  await shipping.line(({ text }) => String(text).startsWith("a duplicate"));
  expect(await count("shipments where order_id = $1", [id])).toBe(1);
  expect(await shop.worker.kill("SIGTERM")).toEqual({ code: 0, signal: null });
  expect(await shipping.kill("SIGTERM")).toEqual({ code: 0, signal: null });
});

test("a duplicate in flight gets 429; a kill before COMMIT leaves nothing, and the retry runs", async (context) => {
  if (redis === undefined) return context.skip("Redis is missing");
  let shop = await service();
  const free = await lockTable(database.url, "orders");
  const lost = shop.post("/orders", "order-2", { item: "samovar" }).catch((error: Error) => error);
  // Else this one would be the first.
  const waiting = "pg_locks where relation = 'orders'::regclass and not granted";
  await until(async () => (await count(waiting)) === 1, { what: "the handler waits for the table" });
  const duplicate = await shop.post("/orders", "order-2", { item: "samovar" });
  expect(duplicate.status).toBe(429);
  expect(duplicate.headers.get("retry-after")).toMatch(/^\d+$/u);
  await shop.worker.kill("SIGKILL");
  expect(await lost).toBeInstanceOf(Error);
  await free();

  shop = await service();
  const retry = await until(async () => {
    const answer = await shop.post("/orders", "order-2", { item: "samovar" });
    return answer.status === 201 ? answer : undefined;
  });
  expect(retry?.replayed).toBe(false);
  expect(await count("orders where item = 'samovar'")).toBe(1);
});

test("an attempt whose process was killed is taken over after its lease", async (context) => {
  if (redis === undefined) return context.skip("Redis is missing");
  const folder = recipeFolder();
  const file = join(folder, "invoices/7.txt");
  mkdirSync(join(folder, "invoices"));
  execFileSync("mkfifo", [file]); // nobody reads it, so the handler waits
  let shop = await service(folder);
  const lost = shop.post("/invoices", "invoice-7", { order: 7 }).catch((error: Error) => error);
  await until(async () => (await count("latchkey.leases")) === 1);
  expect((await shop.post("/invoices", "invoice-7", { order: 7 })).status).toBe(429);
  await shop.worker.kill("SIGKILL");
  expect(await lost).toBeInstanceOf(Error);
  rmSync(file);

  shop = await service(folder);
  const answer = await until(async () => {
    const again = await shop.post("/invoices", "invoice-7", { order: 7 });
    return again.status === 201 ? again : undefined;
  });
  expect(answer?.replayed).toBe(false);
  expect(readFileSync(file, "utf8")).toBe("Invoice for order 7\n");
  await shop.worker.line(({ text }) => String(text).startsWith("taken over "));
});

test("without Redis the database answers; the bench runs to its end", async (context) => {
  if (redis === undefined) return context.skip("Redis is missing");
  const shop = await startRecipe("redis-in-front/service.ts", { ...env, BENCH: "1" });
  const first = await shop.post("/orders", "order-3", { item: "kettle" });
  const bench = startScript("redis-in-front/bench.ts", { URL: shop.url, SECONDS: "1", CONNECTIONS: "4" });
  expect(await bench.exited, bench.stderr()).toEqual({ code: 0, signal: null });
  expect(bench.lines.map(({ text }) => String(text).split(":")[0])).toEqual(["plain", "miss", "hit"]);
  await redis.kill9();
  expect(await shop.post("/orders", "order-3", { item: "kettle" })).toMatchObject({
    status: 201,
    replayed: true,
    body: first.body,
  });
  expect(await shop.post("/orders", "order-4", { item: "kettle" })).toMatchObject({ status: 201 });
  expect(await count("orders where item = 'kettle'")).toBe(2);
});
