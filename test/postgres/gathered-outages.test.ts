/** Requests under a lease whose statements are sent together, while the store fails. */
import type pg from "pg";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { StoreError } from "../../packages/latchkey/src/errors.ts";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import { systemPorts } from "../../packages/latchkey/src/ports.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import type { LatchkeyEvent } from "../../packages/latchkey/src/telemetry/events.ts";
import type { CircuitOptions } from "../../packages/latchkey/src/time/circuit-breaker.ts";
import { patient } from "../support/patience.ts";
import { forEachPostgres } from "../support/shared-postgres.ts";
import { startProxy, type TcpProxy } from "../support/tcp-proxy.ts";
import { until } from "../support/until.ts";
import { newKey } from "./arrange.ts";
import { expectNoLeak, migratedDatabase, openPool } from "./harness.ts";

forEachPostgres((version) => {
  let url = "";
  beforeAll(async () => {
    url = await migratedDatabase(version);
  });

  interface World {
    readonly proxy: TcpProxy;
    readonly pool: pg.Pool;
    readonly events: readonly LatchkeyEvent[];
    /** The keys whose handlers have run. */
    readonly runs: readonly string[];
    /** Sends requests with new keys in one turn. */
    burst(count: number): Promise<readonly PromiseSettledResult<string>[]>;
    /** Makes Latchkey's clock go forward. */
    skip(ms: number): void;
  }

  async function inWorld(circuitBreaker: CircuitOptions, work: (world: World) => Promise<void>) {
    const proxy = await startProxy({ to: { port: Number(new URL(url).port) } });
    const pool = openPool(proxy.url(url), { max: 8 });
    const store = postgresStore({ pool, connectTimeoutMs: patient(10_000) });
    const events: LatchkeyEvent[] = [];
    const runs: string[] = [];
    let skippedMs = 0;
    const { clock } = systemPorts;
    const ports = { ...systemPorts, clock: { ...clock, monotonicMs: () => clock.monotonicMs() + skippedMs } };
    const onEvent = (event: LatchkeyEvent) => void events.push(event);
    const latchkey = createLatchkey({ store, circuitBreaker, ports, onEvent });
    const send = latchkey.operation("orders.send", { execution: "lease" });
    const run = async (key: string) => {
      const result = await latchkey.run(send, { tenant: "t", key, input: null }, async () => {
        runs.push(key);
        return key;
      });
      if (result.kind === "executed") expect(result.value).toBe(key);
      return result.kind;
    };
    const burst = (count: number) =>
      Promise.allSettled(Array.from({ length: count }, () => run(newKey().key)));
    const skip = (ms: number) => {
      skippedMs += ms;
    };
    await work({ proxy, pool, events, runs, burst, skip });
    await latchkey.close();
    await expectNoLeak(pool);
    await pool.end();
    await proxy.close();
  }

  const all = (count: number) => Array.from({ length: count }, () => ({ value: "executed" }));
  const refused = (count: number, message: RegExp) =>
    Array.from({ length: count }, () => ({
      status: "rejected",
      reason: expect.objectContaining({
        code: "store-unavailable",
        certainty: "not_sent",
        message: expect.stringMatching(message),
      }),
    }));
  const openCircuit = /^The circuit breaker of store postgres is open$/u;
  const circuitsIn = (events: readonly LatchkeyEvent[]) =>
    events.map(({ type }) => type).filter((type) => type.startsWith("circuit_"));

  test("while it is away all are refused, each statement is one failure, and one request finds that it is back", async () => {
    await inWorld({ failureThreshold: 2, openMs: 600_000 }, async (world) => {
      const { proxy, pool, events, runs, burst, skip } = world;
      expect(await burst(32)).toMatchObject(all(32));
      await proxy.cut();
      await until(() => pool.totalCount === 0, { what: "the pool has noticed" });
      expect(await burst(32)).toMatchObject(refused(32, /^No connection/u));
      expect(circuitsIn(events), "one statement with all look-ups").toEqual([]);
      expect(await burst(32)).toMatchObject(refused(32, /^No connection/u));
      expect(circuitsIn(events)).toEqual(["circuit_opened"]);
      expect(await burst(32)).toMatchObject(refused(32, openCircuit));
      await proxy.pass();
      expect(await burst(32), "no probe before its time").toMatchObject(refused(32, openCircuit));
      expect(pool.totalCount).toBe(0);
      skip(600_000);
      const [probe, ...others] = await burst(32);
      expect(probe).toMatchObject({ value: "executed" });
      expect(others).toMatchObject(refused(31, openCircuit));
      expect(circuitsIn(events)).toEqual(["circuit_opened", "circuit_closed"]);
      expect(await burst(32)).toMatchObject(all(32));
      expect(new Set(runs).size).toBe(65);
      expect(runs).toHaveLength(65);
    });
  });

  test("when it goes away between look-ups and reservations, each request is refused, or runs once and is answered", async () => {
    await inWorld({ failureThreshold: 2 }, async ({ proxy, events, runs, burst, skip }) => {
      expect(await burst(32)).toMatchObject(all(32));
      const hold = proxy.holdWhen(({ bytes }) => bytes.includes("lk_create_many_"));
      const results = burst(32);
      await hold.held();
      await proxy.cut();
      await until(() => circuitsIn(events).length > 0, { what: "the circuit opens" });
      await proxy.pass();
      const outcomes = await results;
      const failed = outcomes.flatMap((one) => (one.status === "rejected" ? [one.reason] : []));
      for (const error of failed) expect(error).toBeInstanceOf(StoreError);
      expect(outcomes).toMatchObject(outcomes.map(({ status }) => (status === "rejected" ? {} : all(1)[0])));
      expect(runs).toHaveLength(64 - failed.length);
      skip(1_000);
      expect((await burst(1))[0]).toMatchObject({ value: "executed" });
      expect(await burst(32)).toMatchObject(all(32));
      expect(circuitsIn(events)).toEqual(["circuit_opened", "circuit_closed"]);
      expect(new Set(runs).size).toBe(runs.length);
    });
  });

  test.each(["lk_create_many_", "lk_finish_many_"])(
    "a lost reply to %s is one failure, and each request ends with its own answer and events, once",
    async (statement) => {
      const warnings: Error[] = [];
      const onWarning = (warning: Error) => void warnings.push(warning);
      process.on("warning", onWarning);
      onTestFinished(() => void process.off("warning", onWarning));
      await inWorld({ failureThreshold: 2 }, async ({ proxy, events, runs, burst }) => {
        await burst(1);
        let ids: readonly string[] = [];
        const stop = proxy.observe(({ direction, bytes }) => {
          if (direction === "down" || ids.length > 0 || !bytes.includes(statement)) return;
          ids = [...bytes.toString("latin1").matchAll(/"id":"([^"]+)"/gu)].map(([, id = ""]) => id);
        });
        const hold = proxy.holdReplyWhen(({ bytes }) => ids.some((id) => bytes.includes(id)));
        const before = events.length;
        const results = burst(12);
        await hold.held();
        stop();
        expect(ids.length).toBeGreaterThan(1);
        hold.drop();
        expect(await results).toMatchObject(all(12));
        expect(runs).toHaveLength(13);
        const own = Map.groupBy(events.slice(before), (event) => ("keyHash" in event ? event.keyHash : ""));
        expect([...own.values()].map((some) => some.map(({ type }) => type))).toEqual(
          Array.from({ length: 12 }, () => ["reserved", "executed"]),
        );
      });
      expect(warnings).toEqual([]);
    },
  );
});
