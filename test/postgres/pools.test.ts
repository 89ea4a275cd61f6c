/** Pools that are full, and pools whose connections hang while they are opened. */

import { beforeAll, describe, expect, test } from "vitest";
import {
  createLatchkey,
  type LatchkeyEvent,
  type LatchkeyOptions,
  StoreError,
} from "../../packages/latchkey/src/index.ts";
import { systemPorts } from "../../packages/latchkey/src/ports.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { faultyStore } from "../../packages/latchkey/src/testing/index.ts";
import { until } from "../support/until.ts";
import { endlessMs, migratedDatabase, openPool, patientClock } from "./harness.ts";
import { holeInFrontOf } from "./hole.ts";

let url = "";
beforeAll(async () => {
  url = await migratedDatabase();
});

type Tx = { query(text: string): Promise<unknown> };

function setUp(max: number) {
  const pool = openPool(url, { max, connectionTimeoutMillis: 10_000 });
  const { ports, giveUp } = patientClock();
  const store = postgresStore({ pool, ports, connectTimeoutMs: endlessMs });
  const events: string[] = [];
  const options: LatchkeyOptions<Tx> = {
    store: store as never,
    circuitBreaker: { failureThreshold: 2, openMs: 60_000 },
    onEvent: ({ type }: LatchkeyEvent) => events.push(type),
  };
  const latchkey = createLatchkey<Tx>(options);
  let keys = 0;
  const request = () => ({ tenant: "t", key: `k${++keys}-${max}`, input: null });
  const close = async () => {
    await store.close();
    await pool.end();
  };
  return { pool, latchkey, events, request, giveUp, close };
}

describe("a pool that is all in use", () => {
  test("by Latchkey's own transactions opens no circuit, and the next request that finds a place is served", async () => {
    const { latchkey, events, request, giveUp, close } = setUp(3);
    const order = latchkey.operation("order");
    const gate = Promise.withResolvers<void>();
    let started = 0;
    const slow = [1, 2].map(() =>
      latchkey.run(order, request(), async ({ tx }) => {
        await tx.query("insert into business values ('slow')");
        started += 1;
        await gate.promise;
      }),
    );
    await until(() => started === 2);
    const late = Array.from({ length: 5 }, () =>
      latchkey.run(order, request(), async ({ tx }) => tx.query("insert into business values ('late')")),
    );
    let settled = 0;
    for (const one of late) one.catch(() => settled++);
    await until(() => {
      giveUp();
      return settled === late.length;
    });
    for (const one of late) {
      await expect(one).rejects.toMatchObject({
        code: "store-unavailable",
        certainty: "not_sent",
        overload: true,
      });
      const error: unknown = await one.catch((reason: unknown) => reason);
      expect(
        error instanceof StoreError && error.retryAfterMs,
        "by what is known of the others",
      ).toBeGreaterThan(0);
    }
    gate.resolve();
    await Promise.all(slow);
    const next = await latchkey.run(order, request(), async ({ tx }) =>
      tx.query("insert into business values ('next')"),
    );
    expect(next.kind).toBe("executed");
    expect(events).not.toContain("circuit_opened");
    await close();
  });

  test.each(["transaction", "lease"] as const)(
    "by the user's own queries neither (%s)",
    async (execution) => {
      const { pool, latchkey, events, request, giveUp, close } = setUp(2);
      const operation = latchkey.operation(`mail-${execution}`, { execution, writes: "none" } as {
        execution: "lease";
      });
      const clients = [await pool.connect(), await pool.connect()];
      const refused = Array.from({ length: 4 }, () => latchkey.run(operation, request(), async () => null));
      let settled = 0;
      for (const one of refused) one.catch(() => settled++);
      await until(() => pool.waitingCount >= 1);
      await until(() => {
        giveUp();
        return settled === refused.length;
      });
      for (const one of refused) await expect(one).rejects.toMatchObject({ overload: true });
      for (const client of clients) client.release();
      expect((await latchkey.run(operation, request(), async () => null)).kind).toBe("executed");
      expect(events).not.toContain("circuit_opened");
      await close();
    },
  );
});

describe("a circuit that was opened by an outage", () => {
  const openMs = 60_000;

  /** A service whose store can be out, over a pool of two and a clock that can be set forward. */
  async function outage(execution: "transaction" | "lease") {
    const pool = openPool(url, { max: 2, connectionTimeoutMillis: 10_000 });
    const { ports, giveUp } = patientClock();
    const store = postgresStore({ pool, ports, connectTimeoutMs: endlessMs });
    const net = { isOut: true, aheadMs: 0 };
    const watched = faultyStore<Tx>(store as never, () => (net.isOut ? "not_sent" : "proceed"));
    const clock = { ...ports.clock, monotonicMs: () => ports.clock.monotonicMs() + net.aheadMs };
    const events: string[] = [];
    const latchkey = createLatchkey<Tx>({
      store: watched.store,
      ports: { ...systemPorts, clock },
      circuitBreaker: { failureThreshold: 2, openMs },
      onEvent: ({ type }: LatchkeyEvent) => events.push(type),
    });
    const operation = latchkey.operation(`half-open-${execution}`, { execution, writes: "none" } as {
      execution: "lease";
    });
    let keys = 0;
    const run = () =>
      latchkey.run(operation, { tenant: "t", key: `k${++keys}`, input: null }, async () => null);
    for (let count = 0; count < 2; count++) await expect(run()).rejects.toMatchObject({ overload: false });
    net.isOut = false;
    const circuit = () => events.filter((type) => type.startsWith("circuit"));
    expect(circuit()).toEqual(["circuit_opened"]);
    return { pool, store, net, giveUp, run, circuit };
  }

  test.each(["transaction", "lease"] as const)(
    "a probe that finds the pool full says nothing: the next one finds out (%s)",
    async (execution) => {
      const { pool, store, net, giveUp, run, circuit } = await outage(execution);
      await expect(run()).rejects.toThrow("circuit breaker");
      const clients = [await pool.connect(), await pool.connect()];
      net.aheadMs += openMs;
      const probe = run().catch((error: unknown) => error);
      await until(() => pool.waitingCount === 1);
      await expect(run(), "one probe at a time").rejects.toThrow("circuit breaker");
      giveUp();
      expect(await probe).toMatchObject({ code: "store-unavailable", overload: true, certainty: "not_sent" });
      expect(circuit(), "neither worse nor mended").toEqual(["circuit_opened"]);
      for (const client of clients) client.release();
      expect((await run()).kind, "at once, without another wait").toBe("executed");
      expect(circuit()).toEqual(["circuit_opened", "circuit_closed"]);
      expect((await run()).kind).toBe("executed");
      await store.close();
      await pool.end();
    },
  );
});

describe("connections that hang while they are opened", () => {
  test("keep neither requests nor a worker away once new ones work again", async () => {
    const hole = await holeInFrontOf(url);
    const pool = openPool(hole.url, { max: 4, connectionTimeoutMillis: 1_500 });
    const store = postgresStore({ pool, connectTimeoutMs: 1_000 });
    const events: LatchkeyEvent[] = [];
    const latchkey = createLatchkey({ store, onEvent: (event) => events.push(event) });
    const report = latchkey.operation("report", {
      execution: "deferred",
      version: "1",
      run: async () => ({ status: 201, body: "done" }),
    } as never) as never;
    const worker = latchkey.startWorker({ pendingWork: { intervalMs: 100 } });
    hole.begin();
    const during = await Promise.allSettled(
      ["h1", "h2", "h3", "h4", "h5"].map((key) => latchkey.run(report, { tenant: "t", key, input: null })),
    );
    expect(during.map(({ status }) => status)).toEqual(during.map(() => "rejected"));
    const [first] = during;
    expect(first).toMatchObject({ reason: { code: "store-unavailable", overload: false } });
    hole.end();
    await until(
      async () =>
        (await latchkey.run(report, { tenant: "t", key: "after", input: null })).kind === "accepted",
    );
    await until(() => events.some(({ type }) => type === "executed"));
    await worker.stop();
    await store.close();
    await pool.end();
  });

  test("are warned of where the pool has no limit for them, once for each pool", async () => {
    const warnings: (Error & { code?: string })[] = [];
    const listen = (warning: Error) => warnings.push(warning);
    process.on("warning", listen);
    const [endless, bounded] = [openPool(url), openPool(url, { connectionTimeoutMillis: 3_000 })];
    for (const pool of [endless, endless, bounded]) await postgresStore({ pool }).verify();
    await new Promise((resolve) => process.nextTick(resolve));
    process.off("warning", listen);
    const own = warnings.filter(({ code }) => code === "LATCHKEY_POOL_WITHOUT_CONNECT_TIMEOUT");
    expect(own).toHaveLength(1);
    expect(own[0]?.message).toContain("connectionTimeoutMillis");
    await Promise.all([endless.end(), bounded.end()]);
  });
});
