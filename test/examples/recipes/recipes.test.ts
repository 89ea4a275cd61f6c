/** A small sample of each recipe: one request and its repetition. What happens at bad moments is in the files beside. */
import pg from "pg";
import { expect, test } from "vitest";
import { startRedis } from "../../support/private-redis.ts";
import { freshDatabase } from "../../support/shared-postgres.ts";
import { until } from "../../support/until.ts";
import { startRecipe } from "./recipe.ts";

test("Redis in front, outbox behind: an order, and its replay", async (context) => {
  const redis = await startRedis();
  if (redis === undefined) return context.skip("Redis is missing");
  const database = await freshDatabase();
  // Without RabbitMQ its message waits in the outbox.
  const env = { DATABASE_URL: database.url, REDIS_URL: redis.url, RABBITMQ_URL: "amqp://127.0.0.1:1" };
  const shop = await startRecipe("redis-in-front/service.ts", env);
  const first = await shop.post("/orders", "order-1", { item: "teapot" });
  expect(first).toMatchObject({ status: 201, replayed: false, body: '{"id":1,"item":"teapot"}' });
  expect(await shop.post("/orders", "order-1", { item: "teapot" })).toMatchObject({
    status: 201,
    replayed: true,
    body: first.body,
  });
  await shop.worker.stop();
  await Promise.all([redis.stop(), database.drop()]);
});

test("Postgres alone, five states: a report is accepted, made and replayed", async () => {
  const database = await freshDatabase();
  const service = await startRecipe("five-states/service.ts", { DATABASE_URL: database.url });
  const accepted = await service.post("/reports", "report-1", { month: "2026-10" });
  expect(accepted.status).toBe(202);
  const location = accepted.headers.get("location") ?? "";
  await until(async () => (await service.get(location)).status === 201);
  const again = await service.post("/reports", "report-1", { month: "2026-10" });
  expect(again).toMatchObject({ status: 201, replayed: true, body: (await service.get(location)).body });
  await service.worker.stop();
  await database.drop();
});

test("The secure golden path: a payment, its replay, and another tenant", async () => {
  const database = await freshDatabase();
  const service = await startRecipe("golden-path/main.ts", {
    DATABASE_URL: database.url,
    PROVIDER_URL: "http://127.0.0.1:2",
    KEY_SECRET: "0123456789abcdef0123456789abcdef",
    ANSWER_SECRET: Buffer.alloc(32, 7).toString("base64"),
  });
  const pay = (headers = {}) => service.post("/payments", "payment-0000-0001", { amount: 500 }, headers);
  const first = await pay();
  expect(first).toMatchObject({ status: 201, replayed: false });
  expect(await pay()).toMatchObject({ status: 201, replayed: true, body: first.body });
  expect((await pay({ authorization: "Bearer umbrella-token" })).replayed).toBe(false);
  await service.worker.stop();
  await database.drop();
});

test("The uncertain outcome: a provider that cannot be reached was not charged, and its webhook must be signed", async () => {
  const database = await freshDatabase();
  const env = { DATABASE_URL: database.url, PROVIDER_URL: "http://127.0.0.1:2", WEBHOOK_SECRET: "secret" };
  const service = await startRecipe("uncertain-outcome/service.ts", env);
  const answer = await service.post("/payments", "payment-1", { amount: 500 });
  expect(answer.status).toBeGreaterThanOrEqual(500);
  expect(answer.body).not.toContain("outcome-unknown");
  expect((await service.post("/webhooks/provider", null, {}, { "x-signature": "00" })).status).toBe(401);
  await service.worker.stop();
  await database.drop();
});

test("Stripe's shape: a ride keeps its recovery point while the provider is away", async () => {
  const database = await freshDatabase();
  const env = { DATABASE_URL: database.url, PROVIDER_URL: "http://127.0.0.1:2" };
  const service = await startRecipe("recovery-points/service.ts", env);
  const lost = service.post("/rides", "ride-1", { origin: "Home", target: "The moon" });
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  const points = "select recovery_point from latchkey.records where recovery_point is not null";
  await until(async () => (await client.query(points)).rows[0]?.recovery_point === "ride_created");
  await lost;
  await client.end();
  await service.worker.stop();
  await database.drop();
});
