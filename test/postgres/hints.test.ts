import type pg from "pg";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Hint, HintSupport } from "../../packages/latchkey/src/stores/hints.ts";
import { migratePostgres, postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { postgresVersions } from "../support/shared-postgres.ts";
import { startProxy } from "../support/tcp-proxy.ts";
import { until } from "../support/until.ts";
import { newKey, newLife } from "./arrange.ts";
import { expectNoLeak, migratedDatabase, openPool } from "./harness.ts";
import { enqueuing, newEffect } from "./outbox-arrange.ts";

describe.each(postgresVersions())("hints on PostgreSQL %i", (version) => {
  let url: string;
  let observer: pg.Pool;
  let sending: pg.Pool;
  let hearing: pg.Pool;

  beforeAll(async () => {
    url = await migratedDatabase(version);
    observer = openPool(url, { application_name: "observer" });
    await migratePostgres(observer, { schema: "elsewhere" });
  });

  beforeEach(() => {
    sending = openPool(url, { max: 4, application_name: "sending" });
    hearing = openPool(url, { max: 4, application_name: "hearing" });
    return async () => {
      for (const pool of [sending, hearing]) {
        await expectNoLeak(pool);
        await pool.end();
      }
    };
  });

  function hintsOf(pool: pg.Pool, schema = "latchkey"): { hints: HintSupport; close(): Promise<void> } {
    const store = postgresStore({ pool, schema });
    if (store.hints === null) throw new Error("the store has hints");
    return { hints: store.hints, close: () => store.close() };
  }

  async function collect(hints: HintSupport) {
    const received: Hint[] = [];
    const stop = await hints.listen((hint) => received.push(hint));
    return { received, stop };
  }

  const listeners = async () => {
    const { rows } = await observer.query<{ pid: number }>(
      "select pid from pg_stat_activity where application_name = 'hearing' and query ilike 'listen%'",
    );
    return rows.map(({ pid }) => pid);
  };

  test("reach other processes and by their own, each kind for itself", async () => {
    const [sender, hearer] = [hintsOf(sending), hintsOf(hearing)];
    const [there, here] = [await collect(hearer.hints), await collect(sender.hints)];
    sender.hints.send("effects");
    await until(() => there.received.length === 1 && here.received.length === 1, { what: "both receive it" });
    sender.hints.send("pending");
    await until(() => there.received.length === 2, { what: "the other kind is received" });
    expect(there.received).toEqual(["effects", "pending"]);
    await there.stop();
    await here.stop();
    await sender.close();
    await hearer.close();
  });

  test("go together while one is under way", async () => {
    const [sender, hearer] = [hintsOf(sending), hintsOf(hearing)];
    const { received } = await collect(hearer.hints);
    for (let count = 0; count < 200; count++) sender.hints.send(count % 2 === 0 ? "effects" : "pending");
    expect(sending.totalCount, "one connection at most").toBeLessThanOrEqual(1);
    await sender.close();
    await until(() => received.includes("pending") && received.includes("effects"), {
      what: "both kinds are received",
    });
    expect(received.length).toBeLessThanOrEqual(4);
    await hearer.close();
  });

  test("take one connection, however many listen through one store; each ends for itself", async () => {
    const [sender, hearer] = [hintsOf(sending), hintsOf(hearing)];
    const [first, ...others] = await Promise.all(Array.from({ length: 5 }, () => collect(hearer.hints)));
    expect(await listeners()).toHaveLength(1);
    expect(hearing.totalCount).toBe(1);
    for (const { stop } of others.slice(1)) await stop();
    sender.hints.send("effects");
    await until(() => first?.received.length === 1 && others[0]?.received.length === 1, {
      what: "both receive it",
    });
    expect(others.slice(1).flatMap(({ received }) => received)).toEqual([]);
    await first?.stop();
    await first?.stop();
    expect(await listeners(), "one listens still").toHaveLength(1);
    await others[0]?.stop();
    await until(async () => (await listeners()).length === 0, { what: "nobody listens" });
    const again = await collect(hearer.hints);
    sender.hints.send("pending");
    await until(() => again.received.length === 1, { what: "a new subscriber receives" });
    await sender.close();
    await hearer.close();
  });

  test("stay in their schema", async () => {
    const [other, sender, hearer] = [hintsOf(sending, "elsewhere"), hintsOf(sending), hintsOf(hearing)];
    const { received } = await collect(hearer.hints);
    other.hints.send("pending");
    await other.close();
    sender.hints.send("effects");
    await until(() => received.length > 0, { what: "a hint is received" });
    expect(received).toEqual(["effects"]);
    await sender.close();
    await hearer.close();
  });

  test("a listener whose backend is ended comes back, and takes everything to be due", async () => {
    const [sender, hearer] = [hintsOf(sending), hintsOf(hearing)];
    const { received } = await collect(hearer.hints);
    const [pid] = await listeners();
    await observer.query("select pg_terminate_backend($1)", [pid]);
    await until(() => received.length === 2, { what: "it has come back" });
    expect([...received].sort()).toEqual(["effects", "pending"]);
    expect(await listeners()).not.toEqual([pid]);
    sender.hints.send("effects");
    await until(() => received.length === 3, { what: "it receives again" });
    await sender.close();
    await hearer.close();
  });

  test("one that is ended again in the middle of its LISTEN comes back once, and ends as one", async () => {
    const proxy = await startProxy({ to: { port: Number(new URL(url).port) } });
    const pool = openPool(proxy.url(url), { max: 6, application_name: "hearing" });
    const [sender, hearer] = [hintsOf(sending), hintsOf(pool)];
    const { received, stop } = await collect(hearer.hints);
    const endAll =
      "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'hearing'";
    for (let times = 0; times < 3; times++) {
      const listening = proxy.holdWhen(({ sql }) => sql === "listen latchkey");
      await observer.query(endAll);
      await listening.held();
      // The server says so, and not the proxy: that is another way for a connection to end.
      await observer.query(endAll);
      listening.release();
    }
    await until(() => received.length > 0, { what: "it has come back" });
    const before = received.length;
    sender.hints.send("effects");
    await until(() => received.length > before, { what: "it receives again" });
    expect(before, "it took everything to be due once").toBe(2);
    await stop();
    await until(async () => (await listeners()).length === 0, { what: "nobody listens" });
    expect(pool.totalCount).toBe(0);
    await sender.close();
    await hearer.close();
    await pool.end();
  });

  test("closing the store ends its listener, and lets go of its connection", async () => {
    const hearer = hintsOf(hearing);
    await collect(hearer.hints);
    const { stop } = await collect(hearer.hints);
    expect((await listeners()).length).toBeGreaterThan(0);
    await stop();
    await hearer.close();
    await until(async () => (await listeners()).length === 0, { what: "nobody listens" });
    expect(hearing.totalCount).toBe(0);
  });

  test("a pool without room for a listener says so; the store that shall not has no hints", async () => {
    const small = openPool(url, { max: 3 });
    const { hints } = hintsOf(small);
    await expect(hints.listen(() => {})).rejects.toMatchObject({ certainty: "not_sent" });
    expect(postgresStore({ pool: small, notify: false }).hints).toBeNull();
    await small.end();
  });

  test("through a pool that has ended nothing is sent, and listening is refused", async () => {
    const gone = openPool(url, { max: 4 });
    const { hints, close } = hintsOf(gone);
    await gone.end();
    hints.send("effects");
    await close();
    await expect(hints.listen(() => {})).rejects.toMatchObject({ certainty: "not_sent" });
  });

  test("no notification rides in a transaction that enqueues", async () => {
    const hearer = hintsOf(hearing);
    const { received } = await collect(hearer.hints);
    const store = postgresStore({ pool: sending });
    await enqueuing(store, [newEffect()], async () => {}, newLife(newKey()));
    store.hints?.send("pending");
    await until(() => received.length > 0, { what: "the hint is received" });
    expect(received).toEqual(["pending"]);
    await store.close();
    await hearer.close();
  });
});
