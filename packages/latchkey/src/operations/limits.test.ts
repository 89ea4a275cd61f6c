import { RateLimiterMemory } from "rate-limiter-flexible";
import { describe, expect, test } from "vitest";
import { createLatchkey } from "../latchkey.ts";
import { memoryStore } from "../stores/memory.ts";
import type { LatchkeyEvent } from "../telemetry/events.ts";
import type { Limits } from "./limits.ts";

const limiter = (points: number) => new RateLimiterMemory({ points, duration: 60 });

describe.each(["lease", "transaction"] as const)("limits (%s)", (execution) => {
  function setUp(limits: Limits) {
    const events: LatchkeyEvent[] = [];
    const store = memoryStore();
    const latchkey = createLatchkey({ store, limits, onEvent: (event) => events.push(event) });
    const operation = latchkey.operation("op", { execution, writes: "none" });
    let starts = 0;
    const run = (key: string, tenant = "t") =>
      latchkey.run(operation, { tenant, key, input: null }, async () => ++starts);
    return { run, events, store, starts: () => starts };
  }

  test("new keys are counted per tenant, replays are not", async () => {
    const { run, starts, events, store } = setUp({ newKeys: limiter(2) });
    for (const key of ["a", "b", "a", "b", "a"]) await run(key);
    const refused = await run("c");
    expect(refused).toMatchObject({ kind: "too_many_keys", because: "newKeys" });
    if (refused.kind !== "too_many_keys") throw new Error("it should be refused");
    expect(refused.retryAfterMs).toBeGreaterThan(0);
    expect(refused.retryAfterMs).toBeLessThanOrEqual(60_000);
    expect((await store.read({ tenant: "t", scope: "op", key: "c" })).record).toBeNull();
    expect((await run("a")).kind).toBe("replay");
    expect((await run("c", "other")).kind).toBe("executed");
    expect(starts()).toBe(3);
    expect(events).toContainEqual(expect.objectContaining({ type: "too_many_keys", because: "newKeys" }));
  });

  test("look-ups are counted before the store is read, replays too", async () => {
    const { run, starts } = setUp({ lookups: limiter(2) });
    expect([(await run("a")).kind, (await run("a")).kind]).toEqual(["executed", "replay"]);
    expect(await run("a")).toMatchObject({ kind: "too_many_keys", because: "lookups" });
    expect((await run("a", "other")).kind).toBe("executed");
    expect(starts()).toBe(2);
  });

  test("if a limiter fails, requests continue and the failure is reported", async () => {
    const broken = { consume: () => Promise.reject(new Error("Redis is away")) };
    const { run, events } = setUp({ lookups: broken, newKeys: broken });
    expect((await run("a")).kind).toBe("executed");
    const reported = events.filter(({ type }) => type === "limiter_error");
    expect(reported).toMatchObject([{ limit: "lookups" }, { limit: "newKeys" }]);
  });

  test("without a time from the limiter, clients wait a second", async () => {
    const { run } = setUp({ lookups: { consume: () => Promise.reject({}) } });
    expect(await run("a")).toMatchObject({ kind: "too_many_keys", retryAfterMs: 1_000 });
  });
});
