import type pg from "pg";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Clock } from "../../packages/latchkey/src/ports.ts";
import { systemPorts } from "../../packages/latchkey/src/ports.ts";
import type { NewLife } from "../../packages/latchkey/src/stores/life.ts";
import { type PostgresStore, postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { startProxy } from "../support/tcp-proxy.ts";
import { deferred, until, within } from "../support/until.ts";
import { answer, newKey, newLife, request, retention, supportOf, terms, writing } from "./arrange.ts";
import { expectNoLeak, migratedDatabase, openPool, type TestTx } from "./harness.ts";
import { begin, completing, ownerOf, writingPhase } from "./owned.ts";

const leaseMs = 60_000;
const complete = { event: "complete", answer, retention, errorCode: null } as const;

describe("the connection that heartbeats have for themselves", () => {
  let url: string;
  let pool: pg.Pool;

  beforeAll(async () => {
    url = await migratedDatabase();
  });
  beforeEach(() => {
    pool = openPool(url, { max: 3 });
    return async () => {
      await expectNoLeak(pool);
      await pool.end();
    };
  });

  const inUse = () => pool.totalCount - pool.idleCount;

  test("a pool full of other work cannot make a lease run out", async () => {
    const store = postgresStore({ pool });
    const life = newLife(newKey());
    await store.create(life, null, terms);
    const busy = [await pool.connect(), await pool.connect()];
    const renewed = Promise.all(
      Array.from({ length: 5 }, () => store.renew(life, life.id, life.fence, leaseMs)),
    );
    expect(await within(renewed, "the heartbeats")).toEqual([true, true, true, true, true]);
    for (const client of busy) client.release();
    await store.end(life, life.id, life.fence, complete);
  });

  test("is taken with the first attempt and given back with the last, however they end", async () => {
    const store = postgresStore({ pool });
    const lives = Array.from({ length: 4 }, () => newLife(newKey()));
    for (const life of lives) await store.create(life, null, terms);
    expect(inUse()).toBe(1);
    const [completed, released, lost, doubted] = lives;
    if (!(completed && released && lost && doubted)) throw new Error("four lives");
    await store.end(completed, completed.id, completed.fence, complete);
    await store.end(released, released.id, released.fence, { event: "release" });
    await pool.query("update latchkey.leases set token = gen_random_uuid() where key = $1", [lost.key]);
    expect(await store.renew(lost, lost.id, lost.fence, leaseMs)).toBe(false);
    expect(inUse()).toBe(1);
    const doubt = { event: "doubt", errorCode: "x", reconcileAfterMs: null } as const;
    await store.end(doubted, doubted.id, doubted.fence, doubt);
    expect(inUse()).toBe(0);
  });

  test("is not kept for an admission that found the key taken", async () => {
    const store = postgresStore({ pool });
    const key = newKey();
    await writing(store, newLife(key));
    expect(await store.create(newLife(key), null, terms)).toBeNull();
    expect(inUse()).toBe(0);
  });

  test("is given back for an attempt that nobody ends, when its lease is over", async () => {
    const timers = new Set<() => void>();
    const clock: Clock = {
      ...systemPorts.clock,
      startTimer(delayMs, task) {
        if (delayMs !== 12_345) return systemPorts.clock.startTimer(delayMs, task);
        timers.add(task);
        return () => timers.delete(task);
      },
    };
    const store = postgresStore({ pool, ports: { clock } });
    await store.create(newLife(newKey()), null, { ...terms, leaseMs: 12_345 });
    expect(inUse()).toBe(1);
    expect(timers.size).toBe(1);
    for (const fire of timers) fire();
    await until(() => inUse() === 0, { what: "the connection is back" });
  });

  test("close gives it back, and the next heartbeat takes it again", async () => {
    const store = postgresStore({ pool });
    const life = newLife(newKey());
    await store.create(life, null, terms);
    await store.close();
    expect(inUse()).toBe(0);
    expect(await store.renew(life, life.id, life.fence, leaseMs)).toBe(true);
    expect(inUse()).toBe(1);
    await store.close();
  });

  test("is replaced when it has died, idle or in the middle of a heartbeat", async () => {
    const proxy = await startProxy({ to: { port: Number(new URL(url).port) } });
    const behind = openPool(proxy.url(url), { max: 3 });
    const store = postgresStore({ pool: behind });
    const life = newLife(newKey());
    await store.create(life, null, terms);
    proxy.reset();
    await until(() => store.renew(life, life.id, life.fence, leaseMs), {
      what: "a heartbeat on a new connection",
    });
    const hold = proxy.holdWhen(({ sql }) => sql?.includes("set locked_until") === true);
    const cut = store.renew(life, life.id, life.fence, leaseMs);
    const refused = expect(cut).rejects.toMatchObject({ code: "store-unavailable", certainty: "in_doubt" });
    await hold.held();
    hold.drop();
    await refused;
    expect(await store.renew(life, life.id, life.fence, leaseMs)).toBe(true);
    await store.end(life, life.id, life.fence, complete);
    await expectNoLeak(behind);
    await behind.end();
  });

  describe("stays given back", () => {
    /** What is done while the reply to a renewal is kept back. */
    async function lateReply(
      work: (store: PostgresStore<TestTx>, life: NewLife, release: () => void) => Promise<unknown>,
    ) {
      const proxy = await startProxy({ to: { port: Number(new URL(url).port) } });
      const behind = openPool(proxy.url(url), { max: 3 });
      const store = postgresStore({ pool: behind });
      const life = newLife(newKey());
      await store.create(life, null, terms);
      const hold = proxy.holdReplyWhen(() => true);
      const renewed = store.renew(life, life.id, life.fence, leaseMs);
      await hold.held();
      await work(store, life, () => hold.release());
      hold.release();
      expect(await renewed).toBe(true);
      const kept = behind.totalCount - behind.idleCount;
      await store.close();
      expect(kept).toBe(0);
      await behind.end();
      await proxy.close();
    }

    test("when a renewal is answered after the attempt has ended", () =>
      lateReply((store, life) => store.end(life, life.id, life.fence, complete)));

    test("when a renewal is answered after the store was closed", () =>
      lateReply(async (store, _life, release) => {
        const closed = store.close();
        release();
        await closed;
      }));

    test("when a renewal comes between the COMMIT of a last phase and the end of its lease", async () => {
      const proxy = await startProxy({ to: { port: Number(new URL(url).port) } });
      const behind = openPool(proxy.url(url), { max: 3 });
      const store = postgresStore({ pool: behind });
      const owner = ownerOf(await begin(store));
      const hold = proxy.holdWhen(({ sql }) => /^delete from \S+leases/u.test(sql ?? ""));
      const phase = writingPhase(store, owner, { isolation: "repeatable read", end: completing });
      await hold.held();
      expect(await store.renew(owner.key, owner.id, owner.fence, leaseMs)).toBe(true);
      hold.release();
      expect((await phase).kind).toBe("committed");
      const kept = behind.totalCount - behind.idleCount;
      await store.close();
      expect(kept).toBe(0);
      await behind.end();
      await proxy.close();
    });
  });

  test("is kept again for an attempt whose beginning was in doubt, once a renewal has confirmed it", async () => {
    const proxy = await startProxy({ to: { port: Number(new URL(url).port) } });
    const behind = openPool(proxy.url(url), { max: 3 });
    const store = postgresStore({ pool: behind });
    const life = newLife(newKey());
    await store.verify();
    const hold = proxy.holdWhen(({ sql }) => /insert into \S+leases/u.test(sql ?? ""));
    const created = store.create(life, null, terms);
    const refused = expect(created).rejects.toMatchObject({ certainty: "in_doubt" });
    await hold.held();
    // What the lost request would have written.
    const other = postgresStore({ pool });
    await other.create(life, null, terms);
    await other.close();
    hold.drop();
    await refused;
    expect(behind.totalCount - behind.idleCount).toBe(0);
    expect(await store.renew(life, life.id, life.fence, leaseMs)).toBe(true);
    expect(behind.totalCount - behind.idleCount).toBe(1);
    await store.end(life, life.id, life.fence, complete);
    expect(behind.totalCount - behind.idleCount).toBe(0);
    await behind.end();
    await proxy.close();
  });

  test("cannot be had: the attempt does not begin", async () => {
    const store = postgresStore({ pool, connectTimeoutMs: 50 });
    const busy = [await pool.connect(), await pool.connect(), await pool.connect()];
    const life = newLife(newKey());
    const created = store.create(life, null, terms);
    await expect(created).rejects.toMatchObject({ certainty: "not_sent" });
    for (const client of busy) client.release();
    expect((await store.read(life)).record).toBeNull();
  });

  test("a pool of one is a mistake", async () => {
    const narrow = openPool(url, { max: 1 });
    const store = postgresStore({ pool: narrow });
    await expect(store.create(newLife(newKey()), null, terms)).rejects.toThrow(TypeError);
    expect((await writing(store, newLife(newKey()))).kind, "but transactions run").toBe("committed");
    await narrow.end();
  });

  test("counts when places for transactions are given out", async () => {
    const store = postgresStore({ pool });
    const life = newLife(newKey());
    await store.create(life, null, terms);
    const [entered, leave] = [deferred(), deferred()];
    const first = supportOf(store).run(request(newKey()), async () => {
      entered.resolve();
      await leave.promise;
      await pool.query("select 1");
      return { end: "rollback", value: "" };
    });
    await entered.promise;
    let secondBegan = false;
    const second = supportOf(store).run(request(newKey()), async () => {
      secondBegan = true;
      return { end: "rollback", value: "" };
    });
    expect((await store.read(life)).record?.state, "a connection is left").toBe("in_progress");
    expect(secondBegan).toBe(false);
    leave.resolve();
    await Promise.all([first, second]);
    await store.close();
  });
});
