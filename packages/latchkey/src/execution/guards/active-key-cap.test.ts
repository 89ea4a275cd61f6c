import { describe, expect, test } from "vitest";
import { manualPorts } from "../../../../../test/support/manual-ports.ts";
import { createLatchkey } from "../../latchkey.ts";
import type { Limits } from "../../operations/limits.ts";
import type { ActiveKeys } from "../../stores/active-keys.ts";
import { memoryStore } from "../../stores/memory.ts";
import type { LatchkeyEvent } from "../../telemetry/events.ts";
import { ActiveKeyCap } from "./active-key-cap.ts";

const hour = 60 * 60 * 1_000;
const countEveryMs = 30_000;

function setUp(limits: Limits, execution: "transaction" | "lease" = "transaction") {
  const ports = manualPorts();
  const store = memoryStore({ ports });
  const events: LatchkeyEvent[] = [];
  const asked: (readonly string[])[] = [];
  let fails = false;
  const counting = {
    ...store,
    async countActiveKeys(tenants: readonly string[], max: number): Promise<readonly ActiveKeys[]> {
      asked.push(tenants);
      if (fails) throw new Error("a time-out");
      return (await store.countActiveKeys?.(tenants, max)) ?? [];
    },
  };
  const start = () => {
    const onEvent = (event: LatchkeyEvent) => void events.push(event);
    const latchkey = createLatchkey({ store: counting, ports, limits, onEvent });
    const retention = { retentionMs: hour, forgetAfterMs: hour };
    const operation = latchkey.operation("op", { execution, writes: "none", ...retention });
    const run = (key: string, tenant = "t", work: () => Promise<unknown> = async () => null) =>
      latchkey.run(operation, { tenant, key, input: null }, work);
    return { latchkey, run };
  };
  const fail = (what: boolean) => {
    fails = what;
  };
  return { ports, store, events, asked, start, fail };
}

describe.each(["transaction", "lease"] as const)("activeKeys (%s)", (execution) => {
  test("no new key beyond it; replays, duplicates and other tenants are served", async () => {
    const { start, events, store } = setUp({ activeKeys: 3 }, execution);
    const { run } = start();
    for (const key of ["a", "b", "c"]) expect((await run(key)).kind).toBe("executed");
    expect(await run("d")).toMatchObject({ kind: "too_many_keys", because: "activeKeys" });
    expect((await store.read({ tenant: "t", scope: "op", key: "d" })).record).toBeNull();
    expect((await run("a")).kind).toBe("replay");
    expect((await run("d", "other")).kind).toBe("executed");
    const refused = events.filter(({ type }) => type === "too_many_keys");
    expect(refused).toMatchObject([{ tenant: "t", because: "activeKeys" }]);
  });

  test("a failed key that is tried again needs no place", async () => {
    const { start, ports, store } = setUp({ activeKeys: 2 }, "lease");
    const { run, latchkey } = start();
    await run("a");
    const steps = latchkey.operation("steps", {
      execution: "lease",
      leaseEnd: "resume",
      version: "1",
      run: async (_: null, attempt) => {
        await attempt.phase("write", (tx) => tx.insert("rows", {}));
        if (attempt.fence.attempt === 1) throw new Error("not yet");
        return {};
      },
    });
    const request = { tenant: "t", key: "b", input: null };
    await expect(latchkey.run(steps, request)).rejects.toThrow("not yet");
    await ports.clock.advance(countEveryMs);
    expect((await run("c")).kind).toBe("too_many_keys");
    expect((await latchkey.run(steps, request)).kind).toBe("executed");
    expect((await store.read({ tenant: "t", scope: "steps", key: "b" })).record?.state).toBe("completed");
  });
});

test("answers that are not stored, and handlers that throw, take no place", async () => {
  const { start } = setUp({ activeKeys: 2 });
  const { run } = start();
  for (let count = 0; count < 10; count++) {
    const failing = run(`failing-${count}`, "t", async () => {
      throw new Error("no");
    });
    await expect(failing).rejects.toThrow("no");
  }
  expect([(await run("a")).kind, (await run("b")).kind]).toEqual(["executed", "executed"]);
  expect((await run("c")).kind).toBe("too_many_keys");
});

test("keys that run at the same time are counted while they run", async () => {
  const { start } = setUp({ activeKeys: 2 });
  const { run } = start();
  const results = await Promise.all(["a", "b", "c", "d"].map((key) => run(key)));
  expect(results.map(({ kind }) => kind).sort()).toEqual([
    "executed",
    "executed",
    "too_many_keys",
    "too_many_keys",
  ]);
});

test("the next count sees what other processes have begun, and what was forgotten", async () => {
  const { start, ports, asked } = setUp({ activeKeys: 4 });
  const [one, other] = [start(), start()];
  await one.run("a");
  for (const key of ["b", "c", "d"]) await other.run(key);
  await ports.clock.advance(100);
  expect(asked.length).toBeGreaterThan(0);
  const refused = await one.run("e");
  if (refused.kind !== "too_many_keys") throw new Error("it should be refused");
  // The first key is forgotten an hour after it was written; the count that sees that is the next one after it.
  expect(refused.retryAfterMs).toBeGreaterThanOrEqual(hour - 100);
  expect(refused.retryAfterMs).toBeLessThanOrEqual(hour + countEveryMs);
  await ports.clock.advance(hour - 1_000);
  expect((await one.run("e")).kind).toBe("too_many_keys");
  await ports.clock.advance(refused.retryAfterMs - (hour - 1_000));
  expect((await one.run("e")).kind).toBe("executed");
});

test("if nothing ends by itself, clients retry at the next count", async () => {
  const { start, ports, latchkey } = withLease();
  for (const key of ["a", "b"]) {
    const failing = start(key, async () => {
      throw new Error("socket hang up");
    });
    await expect(failing).rejects.toThrow("socket hang up");
  }
  await ports.clock.advance(100);
  const refused = await start("c");
  if (refused.kind !== "too_many_keys") throw new Error("it should be refused");
  expect(refused.retryAfterMs).toBeGreaterThan(0);
  expect(refused.retryAfterMs).toBeLessThanOrEqual(countEveryMs);
  const [record] = await latchkey.runtime.store.settlement.list({
    state: "unknown",
    operation: null,
    tenant: null,
    limit: 1,
    after: null,
  });
  if (record === undefined) throw new Error("there are two");
  const settled = { notExecuted: { operator: "ann", reason: "asked the bank" } } as const;
  const target = { recordId: record.id };
  expect(await latchkey.settle(target, settled)).toMatchObject({ kind: "settled" });
  expect((await start(record.key)).kind, "it may run again, and ends").toBe("executed");

  function withLease() {
    const world = setUp({ activeKeys: 2 }, "lease");
    const { latchkey: made, run } = world.start();
    const begin = (key: string, work?: () => Promise<unknown>) => run(key, "t", work);
    return { start: begin, ports: world.ports, latchkey: made };
  }
});

test("a failed count refuses nothing, is reported, and is repeated", async () => {
  const { start, ports, events, fail } = setUp({ activeKeys: 2 });
  const [one, other] = [start(), start()];
  for (const key of ["a", "b"]) await other.run(key);
  expect((await one.run("c")).kind, "not counted yet").toBe("executed");
  await ports.clock.advance(200);
  expect((await one.run("d")).kind).toBe("too_many_keys");
  fail(true);
  await ports.clock.advance(countEveryMs);
  expect(events).toContainEqual(
    expect.objectContaining({ type: "service_error", service: "active-key-counter" }),
  );
  expect((await one.run("d")).kind).toBe("executed");
  fail(false);
  await ports.clock.advance(countEveryMs);
  expect((await one.run("e")).kind).toBe("too_many_keys");
});

test("no tenant is counted while no keys begin, nor after close", async () => {
  const { start, ports, asked } = setUp({ activeKeys: 5 });
  const { run, latchkey } = start();
  await ports.clock.advance(hour);
  expect(asked).toEqual([]);
  await run("a");
  await ports.clock.advance(countEveryMs);
  const counts = asked.length;
  expect(counts).toBe(1);
  await ports.clock.advance(hour);
  expect(asked.length).toBe(counts);
  await run("b");
  await latchkey.close();
  await ports.clock.advance(hour);
  expect(asked.length).toBe(counts);
});

test("a tenant with few requests is refused, too, and a tenant that was full is not once it has room again", async () => {
  const { start, ports } = setUp({ activeKeys: 3 });
  const { run } = start();
  for (const key of ["a", "b", "c"]) {
    expect((await run(key)).kind).toBe("executed");
    await ports.clock.advance(5 * 60_000);
  }
  expect((await run("d")).kind).toBe("too_many_keys");
  await ports.clock.advance(2 * hour);
  expect((await run("d")).kind).toBe("executed");
});

test("with more tenants than are remembered, full ones stay full", async () => {
  const ports = manualPorts();
  const store = {
    countActiveKeys: async (tenants: readonly string[]) =>
      tenants.map((tenant) => ({ tenant, count: tenant === "full" ? 10 : 1, roomAfterMs: null })),
  };
  const cap = new ActiveKeyCap(store, 10, ports.clock, () => {});
  cap.take("full");
  await ports.clock.advance(1_000);
  for (let count = 0; count < 30_000; count++) cap.take(`tenant-${count}`);
  expect(cap.take("full")).not.toBeNull();
});

test.each([0, -1, 1.5, 1_000_001, Number.NaN, "10"])("activeKeys: %j is refused", (activeKeys) => {
  const limits = { activeKeys } as Limits;
  expect(() => createLatchkey({ store: memoryStore(), limits })).toThrow(TypeError);
});

test("a store that cannot count is refused with a code", () => {
  const { countActiveKeys: _, ...store } = memoryStore();
  const make = () => createLatchkey({ store, limits: { activeKeys: 5 } });
  expect(make).toThrow(expect.objectContaining({ code: "store-cannot-count" }));
});
