/**
 * A cache on a real Redis in front of a real Postgres: what it saves, and that nothing which happens to it changes an answer
 * or makes work run twice.
 */
import type pg from "pg";
import { createClient } from "redis";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type CachedOptions, cached, cacheWarmer } from "../../packages/latchkey/src/caching/cached.ts";
import { digestOf } from "../../packages/latchkey/src/caching/entry.ts";
import { FarCache } from "../../packages/latchkey/src/caching/far-cache.ts";
import { createLatchkey } from "../../packages/latchkey/src/index.ts";
import { hastenSeen } from "../../packages/latchkey/src/operator/hasten.ts";
import { systemPorts } from "../../packages/latchkey/src/ports.ts";
import type { Reading } from "../../packages/latchkey/src/stores/life.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { linkOf, type RedisClient } from "../../packages/latchkey/src/stores/redis/client.ts";
import { migratedDatabase, openPool } from "../postgres/harness.ts";
import { type PrivateRedis, redisProgram, startRedis } from "../support/private-redis.ts";
import { startProxy } from "../support/tcp-proxy.ts";
import { isThorough } from "../support/thorough.ts";
import { until } from "../support/until.ts";
import { clients as clientsOfAllKinds } from "./clients.ts";

const { clock } = systemPorts;
const hour = 60 * 60 * 1_000;

describe.skipIf(redisProgram() === undefined)("a cache on Redis", () => {
  let redis: PrivateRedis;
  let pool: pg.Pool;
  const clients: { destroy(): void }[] = [];
  let keys = 0;

  beforeAll(async () => {
    redis = (await startRedis()) as PrivateRedis;
    pool = openPool(await migratedDatabase());
  });
  afterAll(() => {
    for (const client of clients) client.destroy();
  });
  beforeEach(async () => {
    await redis.admin("FLUSHALL");
  });

  async function connect(url = redis.url) {
    const client = createClient({ url, socket: { reconnectStrategy: 20 } });
    client.on("error", () => {});
    await client.connect();
    clients.push(client);
    return client;
  }

  /** A process: its own store, cache, client and count of what it asks Postgres. */
  async function open(options: CachedOptions = {}, retentionMs = hour) {
    const inner = postgresStore({ pool });
    let asked = 0;
    const store = cached(
      {
        ...inner,
        read: (key) => {
          asked += 1;
          return inner.read(key);
        },
        transactions: inner.transactions && {
          ...inner.transactions,
          run: (request, work) => {
            asked += 1;
            return inner.transactions?.run(request, work) as never;
          },
        },
      } satisfies typeof inner,
      await connect(),
      // A busy machine answers later than in the default 50 ms, and then Postgres is asked.
      { timeoutMs: 5_000, ...options },
    );
    const latchkey = createLatchkey({ store, circuitBreaker: false });
    const pay = latchkey.operation("pay", { retentionMs });
    return {
      store,
      latchkey,
      asked: () => asked,
      pay: (key: string, { tenant = "t", input = "in" as unknown } = {}) =>
        latchkey.run(pay, { tenant, key, input }, async ({ tx }) => {
          await tx.query("insert into business values ($1)", [`${tenant} ${key}`]);
          return { random: systemPorts.random.token() };
        }),
    };
  }

  const newKey = () => `key ${++keys}`;
  const place = (key: string, tenant = "t") => `latchkey-cache:${digestOf({ tenant, scope: "pay", key })}`;
  const isKept = (key: string) => async () => (await redis.admin("EXISTS", place(key))) === 1;
  const runsOf = async (key: string, tenant = "t") => {
    const { rows } = await pool.query("select 1 from business where row = $1", [`${tenant} ${key}`]);
    return rows.length;
  };

  test("answers what another process has finished, and asks Postgres nothing", async () => {
    const [one, two, three] = [await open(), await open(), await open({ near: true })];
    const key = newKey();
    const first = await one.pay(key);
    const second = await two.pay(key);
    expect([first.kind, second.kind]).toEqual(["executed", "replay"]);
    await until(isKept(key), { what: "the copy is there" });
    const third = await three.pay(key);
    const fourth = await three.pay(key, { input: "else" });
    expect(third).toMatchObject({ kind: "replay", value: (first as { value: unknown }).value });
    expect(fourth).toMatchObject({ kind: "key_misuse" });
    expect(three.asked()).toBe(0);
    expect(await runsOf(key)).toBe(1);
  });

  test("holds an answer no longer than its operation does", async () => {
    const [one, two] = [await open({}, 1_500), await open({}, 1_500)];
    const key = newKey();
    await one.pay(key);
    await one.pay(key);
    await until(isKept(key), { what: "the copy is there" });
    const asked = two.asked();
    expect(await two.pay(key)).toMatchObject({ kind: "replay" });
    expect(two.asked()).toBe(asked);
    await until(async () => !(await isKept(key)()), { what: "the copy is gone" });
    await until(async () => (await two.pay(key)).kind === "executed", { what: "the key is new again" });
    expect(await runsOf(key)).toBe(2);
  });

  test("that is emptied, killed or away costs time and nothing else", async () => {
    // Each request waits for it that long while it is away, and the requests are many.
    const [one, two] = [await open({ timeoutMs: 200 }), await open({ timeoutMs: 200 })];
    const key = newKey();
    const first = await one.pay(key);
    const check = async () => {
      for (const service of [one, two, one, two, one, two]) {
        expect(await service.pay(key)).toMatchObject({
          kind: "replay",
          value: (first as { value: unknown }).value,
        });
      }
    };
    await check();
    await redis.admin("FLUSHALL");
    await check();
    await redis.kill9();
    await check();
    const unseen = newKey();
    expect(await one.pay(unseen)).toMatchObject({ kind: "executed" });
    await redis.start();
    await check();
    await until(
      async () => {
        await check();
        return isKept(key)();
      },
      { what: "it is used again" },
    );
    expect([await runsOf(key), await runsOf(unseen)]).toEqual([1, 1]);
  });

  test("that is frozen holds nobody up for longer than its limit, and soon nobody at all", async () => {
    const one = await open({ timeoutMs: 100 });
    const key = newKey();
    await one.pay(key);
    const thaw = await redis.freeze();
    try {
      const times: number[] = [];
      for (let turn = 0; turn < 12; turn++) {
        const begun = clock.monotonicMs();
        expect(await one.pay(key)).toMatchObject({ kind: "replay" });
        times.push(clock.monotonicMs() - begun);
      }
      // Once it has failed three times it is left alone for a second, but for one request that looks whether it is back.
      expect(times.filter((ms) => ms < 100).length).toBeGreaterThanOrEqual(6);
    } finally {
      thaw();
    }
    expect(await runsOf(key)).toBe(1);
  });

  test.runIf(isThorough)(
    "in turmoil: forty keys, each asked for ten times by two processes, run once and have one answer",
    async () => {
      const services = [await open({ timeoutMs: 20 }), await open({ timeoutMs: 20, near: true })];
      const all = Array.from({ length: 40 }, newKey);
      const seenBy = new Map(all.map((key) => [key, new Set<string>()]));
      let over = false;
      const turmoil = (async () => {
        while (!over) {
          await redis.admin("FLUSHALL");
          await redis.kill9();
          await redis.start();
          const thaw = await redis.freeze();
          thaw();
        }
      })();
      const asking = all.flatMap((key) =>
        Array.from({ length: 10 }, async (_, turn) => {
          const service = services[turn % 2];
          const result = await until(
            async () => {
              const answer = await service?.pay(key);
              return answer?.kind === "executed" || answer?.kind === "replay" ? answer : null;
            },
            { what: `${key} is answered`, timeoutMs: 25_000 },
          );
          seenBy.get(key)?.add(JSON.stringify(result?.value));
        }),
      );
      await Promise.all(asking);
      over = true;
      await turmoil;
      expect([...seenBy.values()].map((answers) => answers.size)).toEqual(all.map(() => 1));
      expect(await Promise.all(all.map((key) => runsOf(key)))).toEqual(all.map(() => 1));
    },
  );

  test("gives nobody the copy of somebody else, and none that was tampered with", async () => {
    const one = await open();
    const key = newKey();
    await one.pay(key);
    await one.pay(key);
    await until(isKept(key), { what: "the copy is there" });
    const client = await connect();
    expect(await client.sendCommand(["COPY", place(key), place(key, "u")])).toBe(1);
    expect(await one.pay(key, { tenant: "u" })).toMatchObject({ kind: "executed" });
    expect(await runsOf(key, "u")).toBe(1);
    await client.sendCommand(["SETRANGE", place(key), "60", "?"]);
    const before = one.asked();
    expect(await one.pay(key)).toMatchObject({ kind: "replay" });
    expect(one.asked()).toBeGreaterThan(before);
    const sealed = await open({ secret: "a secret of more than 32 characters" });
    const asked = sealed.asked();
    expect(await sealed.pay(key)).toMatchObject({ kind: "replay" });
    expect(sealed.asked()).toBeGreaterThan(asked);
  });

  /** One side of a cache by itself, to say when what is asked of Redis. */
  async function far(url = redis.url, client?: RedisClient) {
    const link = linkOf(client ?? (await connect(url)));
    const options = { link, clock, prefix: "far", secret: null, timeoutMs: 10_000, maxAgeMs: hour };
    return new FarCache({ ...options, onError: () => {} });
  }

  async function copyOf(key: string, lifeMs: number) {
    const one = await open();
    await one.pay(key);
    const { record, now } = (await one.store.read({ tenant: "t", scope: "pay", key })) as Reading;
    if (record?.state !== "completed") throw new TypeError("it is completed");
    return { record, untilMs: now + lifeMs };
  }

  test.each(Object.entries(clientsOfAllKinds))("works with %s, byte for byte", async (_, openClient) => {
    const { client, close } = await openClient(redis.url);
    const one = await far(redis.url, client);
    const copy = await copyOf(newKey(), 30_000);
    const answer = Uint8Array.from({ length: 256 }, (_byte, index) => index);
    const whole = { ...copy, record: { ...copy.record, answer } };
    const from = await one.before(copy.record);
    if (from === null) throw new TypeError("Redis was asked");
    await one.set(whole, 30_000, from);
    expect((await one.get(copy.record))?.copy).toEqual(whole);
    await one.forget(copy.record);
    expect(await one.get(copy.record)).toBeNull();
    await close();
  });

  test("keeps no copy that arrives after its time", async () => {
    const key = newKey();
    const proxy = await startProxy({ to: { port: redis.port }, protocol: "bytes" });
    const [late, other] = [await far(`redis://127.0.0.1:${proxy.port}`), await far()];
    const copy = await copyOf(key, 300);
    const from = await late.before(copy.record);
    if (from === null) throw new TypeError("Redis was asked");
    const overMs = clock.monotonicMs() + 300;
    proxy.stall("up");
    const sent = late.set(copy, 300, from);
    await until(() => clock.monotonicMs() > overMs, { what: "its time is over" });
    await proxy.pass();
    await sent;
    expect(await other.get(copy.record)).toBeNull();
    const again = await late.before(copy.record);
    if (again === null) throw new TypeError("Redis was asked");
    await late.set(copy, 30_000, again);
    expect(await other.get(copy.record)).not.toBeNull();
  });

  test("keeps no copy for longer than it has left, whatever the clocks of two servers say", async () => {
    const one = await far();
    const copy = await copyOf(newKey(), 30_000);
    const from = await one.before(copy.record);
    if (from === null) throw new TypeError("Redis was asked");
    await one.set(copy, 30_000, { ...from, redisMs: from.redisMs + hour });
    expect((await one.get(copy.record))?.leftMs).toBeLessThanOrEqual(30_000);
  });

  test("keeps no copy of what was read before it was forgotten", async () => {
    const [one, two] = [await far(), await far()];
    const copy = await copyOf(newKey(), 30_000);
    const from = await one.before(copy.record);
    if (from === null) throw new TypeError("Redis was asked");
    await two.forget(copy.record);
    await one.set(copy, 30_000, from);
    expect(await two.get(copy.record)).toBeNull();
  });

  test("cannot forget while it is away, and says so", async () => {
    const one = await open({ timeoutMs: 10 });
    const thaw = await redis.freeze();
    try {
      await expect(one.store.forget({ tenant: "t", scope: "pay", key: "k" })).rejects.toThrow(
        "may still be there",
      );
    } finally {
      thaw();
    }
  });

  const forgetByHand = async (from: Awaited<ReturnType<typeof open>>, key: string) => {
    const { record } = await postgresStore({ pool }).read({ tenant: "t", scope: "pay", key });
    if (record === null) throw new Error("it is finished");
    const seen = { recordId: record.id, attempt: record.fence.attempt };
    const by = { operator: "ada", reason: "undone by hand" };
    const parts = { store: from.store, ports: systemPorts };
    return hastenSeen(parts, seen, { event: "forget", mayRunAgain: true }, by);
  };

  test("of a key that a person forgets answers nothing any more, near or far", async () => {
    const [one, two] = [await open({ near: true }), await open()];
    const key = newKey();
    for (const _ of [1, 2]) await one.pay(key);
    await until(isKept(key), { what: "the copy is there" });
    const asked = [one.asked(), two.asked()];
    for (const service of [one, two]) expect(await service.pay(key)).toMatchObject({ kind: "replay" });
    expect([one.asked(), two.asked()], "both from their caches").toEqual(asked);
    expect(await forgetByHand(one, key)).toMatchObject({ kind: "done" });
    const again = await two.pay(key);
    expect(again).toMatchObject({ kind: "executed" });
    expect(await runsOf(key)).toBe(2);
    const replay = { kind: "replay", value: (again as { value: unknown }).value };
    for (const service of [one, two]) expect(await service.pay(key)).toMatchObject(replay);
  });

  test("that is away keeps a person from forgetting, so that no copy outlives what it is of", async () => {
    const one = await open({ timeoutMs: 10 });
    const key = newKey();
    for (const _ of [1, 2]) await one.pay(key);
    const thaw = await redis.freeze();
    try {
      await expect(forgetByHand(one, key)).rejects.toThrow("may still be there");
    } finally {
      thaw();
    }
    expect(await one.store.settlement.audit({ tenant: "t", scope: "pay", key })).toEqual([]);
    expect(await one.pay(key)).toMatchObject({ kind: "replay" });
  });

  test("is filled right after the commit where an operation asks for it", async () => {
    const [one, two] = [await open(), await open()];
    const warm = cacheWarmer(one.latchkey, one.store);
    const order = one.latchkey.operation("order", { writes: "none" });
    const same = two.latchkey.operation("order", { writes: "none" });
    const [key, request] = [newKey(), (name: string) => ({ tenant: "t", key: name, input: null })];
    await one.latchkey.run(order, request(key), async ({ attempt }) => {
      attempt.enqueue(warm, attempt.record);
      return "done";
    });
    const worker = one.latchkey.startWorker();
    const at = `latchkey-cache:${digestOf({ tenant: "t", scope: "order", key })}`;
    await until(async () => (await redis.admin("EXISTS", at)) === 1, { what: "the copy is there" });
    await worker.stop();
    expect(await two.latchkey.run(same, request(key), async () => "again")).toMatchObject({
      kind: "replay",
      value: "done",
    });
    expect(two.asked()).toBe(0);
  });
});
