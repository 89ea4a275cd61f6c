/** The fixture server on Redis, and with a cache on Redis in front of other stores. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Fixture, startFixture, temporaryFolder } from "../support/fixture.ts";
import { type PrivateRedis, redisProgram, startRedis } from "../support/private-redis.ts";
import { releaseAll } from "../support/resources.ts";
import { type FreshDatabase, freshDatabase } from "../support/shared-postgres.ts";
import { until } from "../support/until.ts";

const tenant = "t";
const book = { body: { item: "book", amount: 2 }, tenant };

describe.skipIf(redisProgram() === undefined)("the fixture", () => {
  let redis: PrivateRedis;
  let database: FreshDatabase;

  beforeAll(async () => {
    [redis, database] = [
      (await startRedis({ conf: { appendonly: "yes" } })) as PrivateRedis,
      await freshDatabase(),
    ];
  });
  afterAll(async () => {
    await releaseAll();
    await database?.drop();
  });

  const start = (store: string, ...args: string[]): Promise<Fixture> =>
    startFixture({ http: "hono", store, args: ["--data", temporaryFolder(), ...args] });

  describe("on Redis", () => {
    let fixture: Fixture;
    beforeAll(async () => {
      fixture = await start(redis.url);
    });
    afterAll(() => fixture?.worker.stop());

    test("has what needs no transaction", async () => {
      expect((await fixture.request("/health", { tenant: null })).status).toBe(200);
      const [first, second] = [
        await fixture.post("/bodies/buffer", "k", { tenant }),
        await fixture.post("/bodies/buffer", "k", { tenant }),
      ];
      expect([first.status, first.replayed, second.replayed]).toEqual([200, false, true]);
      expect(second.bytes).toEqual(first.bytes);
      expect(await fixture.post("/bodies/buffer", "k", { tenant: "other" })).toMatchObject({
        replayed: false,
      });
      expect(await fixture.post("/bodies/buffer", "k", { tenant, body: 1 })).toMatchObject({ status: 422 });
      expect(await fixture.post("/status/500", "k5", { tenant })).toMatchObject({ status: 500 });
      expect((await fixture.post("/status/500", "k5", { tenant })).json()).toMatchObject({
        code: "outcome-unknown",
      });
    });

    test("does later what it has accepted", async () => {
      const accepted = await fixture.post("/reports?ms=1", "k", { tenant });
      expect(accepted.status).toBe(202);
      const [location = ""] = accepted.lines("Location");
      const done = await until(
        async () => {
          const answer = await fixture.request(location, { tenant });
          return answer.status === 200 ? answer : null;
        },
        { what: "the report is there" },
      );
      expect(done?.json()).toEqual({ rows: 0 });
    });

    test.each(["/orders", "/slow-tx", "/notify", "/charges", "/charges-lookup"])(
      "answers 501 to %s",
      async (path) => {
        expect(await fixture.post(path, "k", book)).toMatchObject({ status: 501 });
      },
    );

    test("keeps orders that need no protection", async () => {
      const path = "/orders/o-1";
      await fixture.request(path, { ...book, method: "PUT" });
      expect((await fixture.request(path, { tenant })).json()).toEqual({ id: "o-1", ...book.body });
      expect(await fixture.ledger(tenant)).toMatchObject([{ id: "o-1" }]);
      expect((await fixture.request(path, { tenant, method: "DELETE" })).status).toBe(204);
    });

    test("keeps its answers when Redis is killed, and answers 503 without a start meanwhile", async () => {
      const first = await fixture.post("/status/200", "before", { tenant });
      await redis.kill9();
      expect(await fixture.post("/status/200", "before", { tenant })).toMatchObject({ status: 503 });
      expect(await fixture.post("/status/201", "meanwhile", { tenant })).toMatchObject({ status: 503 });
      expect(await fixture.starts("/status/201", tenant)).toBe(0);
      await redis.start();
      const again = await until(
        async () => {
          const answer = await fixture.post("/status/200", "before", { tenant });
          return answer.status === 503 ? null : answer;
        },
        { what: "Redis is used again" },
      );
      expect([again?.replayed, again?.bytes]).toEqual([true, first.bytes]);
    });

    test("forgets everything on reset", async () => {
      await fixture.post("/status/200", "reset", { tenant });
      await fixture.request("/reset", { method: "POST", tenant: null });
      expect(await fixture.post("/status/200", "reset", { tenant })).toMatchObject({ replayed: false });
    });
  });

  test("with a cache answers what is finished while Redis comes and goes, from either of two processes", async () => {
    const args = ["--cache", redis.url, "--data", temporaryFolder()];
    const [one, two] = await Promise.all([start(database.url, ...args), start(database.url, ...args)]);
    const first = await one.post("/orders", "k", book);
    expect(first.status).toBe(201);
    const check = async () => {
      for (const fixture of [two, one, two]) {
        const answer = await fixture.post("/orders", "k", book);
        expect([answer.status, answer.replayed]).toEqual([201, true]);
        expect(answer.bytes).toEqual(first.bytes);
        expect(answer.lines("Location")).toEqual(first.lines("Location"));
      }
    };
    await check();
    await redis.admin("FLUSHALL");
    await check();
    await redis.kill9();
    await check();
    await redis.start();
    await check();
    expect(await one.post("/orders", "k", { ...book, tenant: "other" })).toMatchObject({ replayed: false });
    expect(await one.post("/orders", "k", { body: { item: "book", amount: 3 }, tenant })).toMatchObject({
      status: 422,
    });
    expect(await one.ledger(tenant)).toHaveLength(1);
    await one.request("/reset", { method: "POST", tenant: null });
    expect(await two.post("/orders", "k", book)).toMatchObject({ status: 201, replayed: false });
    await Promise.all([one.worker.stop(), two.worker.stop()]);
  });
});
