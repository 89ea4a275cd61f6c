/**
 * Nothing but Latchkey's own timers keeps this process alive while it waits for each of these, one after the other. It
 * ends early, with exit code 13 or 0, where one of them does not.
 */
import { createLatchkey, effectDispatcher, leaseRescuer, outcomeReconciler, recordCleaner } from "latchkey";
import { memoryStore } from "latchkey/memory";
import { migratePostgres, postgresStore } from "latchkey/postgres";
import { redisStore } from "latchkey/redis";
import pg from "pg";
import { createClient } from "redis";

const [databaseUrl, redisUrl] = process.argv.slice(2);
const say = (done: string, what: unknown) => console.log(JSON.stringify({ done, what }));
/** Of a caller, so that it keeps nothing alive. */
const soon = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms).unref());
const codeOf = (error: unknown) => (error as { code?: unknown }).code;
const latchkey = createLatchkey({ store: memoryStore() });

async function twice(name: string, of: typeof latchkey, execution: "transaction" | "lease") {
  const shared = { execution, waitMs: 5_000 } as const;
  const operation = of.operation(name, execution === "transaction" ? { ...shared, writes: "none" } : shared);
  const go = () => of.run(operation, { tenant: "t", key: "k", input: 1 }, () => soon(60).then(() => "once"));
  const [first, second] = await Promise.all([go(), go()]);
  say(name, [first.kind, second.kind].sort());
}

async function limits() {
  const never = () => new Promise<never>(() => {});
  const one = latchkey.operation("transaction-limit", { transactionLimitMs: 40, writes: "none" });
  await latchkey
    .run(one, { tenant: "t", key: "k", input: 1 }, never)
    .catch((error) => say(one.name, codeOf(error)));
  const two = latchkey.operation("attempt-limit", { execution: "lease", attemptLimitMs: 40 });
  await latchkey.run(two, { tenant: "t", key: "k", input: 1 }, never).then(
    ({ kind }) => say(two.name, kind),
    (error) => say(two.name, codeOf(error)),
  );
}

async function retries() {
  let sends = 0;
  const effect = latchkey.effect("again", {
    deduplication: "provider",
    dedupeWindowMs: 60_000,
    execute: async () => {
      sends += 1;
      if (sends < 3) throw new Error("again");
      return { sends };
    },
  });
  const operation = latchkey.operation("calls", {
    execution: "lease",
    leaseEnd: "resume",
    version: "1",
    run: async (_: number, attempt) => ({ status: 200, body: await attempt.call("call", effect, {}) }),
  });
  const ran = await latchkey.run(operation, { tenant: "t", key: "k", input: 1 });
  say("calls", ran.kind);
}

async function drains() {
  const work = latchkey.operation("deferred", {
    execution: "deferred",
    version: "1",
    run: async () => {
      say("begun", null);
      await soon(60);
      return { status: 200, body: null };
    },
  });
  await latchkey.run(work, { tenant: "t", key: "k", input: 1 });
  const worker = latchkey.startWorker();
  await soon(20);
  say("worker", await worker.stop());
  for (const service of [effectDispatcher, leaseRescuer, outcomeReconciler, recordCleaner]) {
    const one = service(latchkey);
    one.start();
    await one.stop();
  }
  say("services", null);
  await latchkey.run(work, { tenant: "t", key: "another", input: 1 });
  say("work", (await latchkey.work({ untilMs: 60_000 })).ended);
  const closing = createLatchkey({ store: memoryStore() });
  const mail = closing.operation("mail", { execution: "lease" });
  const running = closing.run(mail, { tenant: "t", key: "k", input: 1 }, () => soon(60));
  say("closed", await closing.close());
  say("closing", (await running).kind);
}

async function onRedis(url: string) {
  const client = await createClient({ url }).connect();
  const redis = createLatchkey({ store: redisStore({ client }) });
  await twice("redis", redis as never, "lease");
  say("redis-work", (await redis.work({ untilMs: 60_000 })).ended);
  say("redis-closed", await redis.close());
  await client.close();
}

async function onPostgres(url: string) {
  const pool = new pg.Pool({ connectionString: url, allowExitOnIdle: true });
  await migratePostgres(pool);
  await twice("postgres", createLatchkey({ store: postgresStore({ pool }) }) as never, "transaction");
  await pool.end();
}

await twice("waits-transaction", latchkey, "transaction");
await twice("waits-lease", latchkey, "lease");
await limits();
await retries();
await drains();
if (databaseUrl !== undefined) await onPostgres(databaseUrl);
if (redisUrl !== undefined) await onRedis(redisUrl);
say("end", null);
// From here on only background timers are left, and they must not keep it alive.
for (const service of [effectDispatcher, leaseRescuer, outcomeReconciler, recordCleaner])
  service(latchkey, { intervalMs: 1_000_000 }).start();
const forgotten = latchkey.operation("heartbeats", {
  execution: "lease",
  leaseMs: 400_000,
  attemptLimitMs: 30,
});
void latchkey.run(forgotten, { tenant: "t", key: "k", input: 1 }, () => soon(1)).catch(() => {});
