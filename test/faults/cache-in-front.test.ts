/** What README.md's comparison says of a cache in front of the handler, on a real one: node-idempotency over Redis. */
import { createClient } from "redis";
import { beforeEach, expect, test } from "vitest";
import { openPool } from "../postgres/harness.ts";
import { redisProgram, startRedis } from "../support/private-redis.ts";
import { spawnWorker, type WorkerProcess } from "../support/processes.ts";
import { type FreshDatabase, freshDatabase } from "../support/shared-postgres.ts";
import { until } from "../support/until.ts";

const script = new URL("./cache-in-front-process.ts", import.meta.url);
let database: FreshDatabase;

beforeEach(async () => {
  database = await freshDatabase();
  await openPool(database.url).query(
    "create table payments (id integer generated always as identity, amount integer not null)",
  );
});

interface Service {
  readonly worker: WorkerProcess;
  /** The answer; null where the connection broke. */
  pay(): Promise<Response | null>;
}

async function serve(redisUrl: string, env: Readonly<Record<string, string>> = {}): Promise<Service> {
  const worker = spawnWorker(script, { env: { DATABASE_URL: database.url, REDIS_URL: redisUrl, ...env } });
  const { url } = await worker.ready();
  const headers = { "content-type": "application/json", "idempotency-key": "order-1" };
  const init = { method: "POST", headers, body: '{"amount":500}' };
  return { worker, pay: () => fetch(`${url}/payments`, init).catch(() => null) };
}

async function payments(): Promise<number> {
  const { rows } = await openPool(database.url).query("select from payments");
  return rows.length;
}

test.skipIf(redisProgram() === undefined).each([
  ["before", 0],
  ["after", 1],
] as const)(
  "a process that dies %s the work: the retry runs the handler once the lock has expired",
  async (when, done) => {
    const redis = await startRedis();
    if (redis === undefined) throw new Error("Redis does not start");
    const victim = await serve(redis.url, { DIE: when });
    expect(await victim.pay()).toBeNull();
    await victim.worker.exited;
    expect(await payments()).toBe(done);
    const other = await serve(redis.url);
    await until(async () => (await other.pay())?.status === 201, { what: "the lock has expired" });
    expect(await payments()).toBe(done + 1);
  },
);

test("a cache that is emptied: the retry runs the handler again; before, it got the answer", async (context) => {
  const redis = await startRedis();
  if (redis === undefined) return context.skip("Redis is missing");
  const service = await serve(redis.url, { TTL_MS: "86400000" });
  for (const _ of ["first", "retry"]) expect((await service.pay())?.status).toBe(201);
  expect(await payments()).toBe(1);
  const client = createClient({ url: redis.url });
  await client.connect();
  await client.flushAll();
  client.destroy();
  expect((await service.pay())?.status).toBe(201);
  expect(await payments()).toBe(2);
});
