import { RateLimiterMemory } from "rate-limiter-flexible";
import { describe, expect, test } from "vitest";
import { type ManualClock, manualPorts } from "../../../../test/support/manual-ports.ts";
import { createLatchkey } from "../latchkey.ts";
import { type Ports, systemPorts } from "../ports.ts";
import { memoryStore } from "../stores/memory.ts";
import type { LatchkeyEvent } from "../telemetry/events.ts";
import type { Limits } from "./limits.ts";

const limiter = (points: number) => new RateLimiterMemory({ points, duration: 60 });

describe.each(["lease", "transaction"] as const)("limits (%s)", (execution) => {
  function setUp(limits: Limits, ports: Ports = systemPorts) {
    const events: LatchkeyEvent[] = [];
    const store = memoryStore();
    const latchkey = createLatchkey({ store, limits, ports, onEvent: (event) => events.push(event) });
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

  describe.each(["lookups", "newKeys"] as const)("a limiter of %s that does not answer", (limit) => {
    function silent() {
      const ports = manualPorts();
      const asked: string[] = [];
      let answers = false;
      const consume = (tenant: string) => {
        asked.push(tenant);
        return answers ? Promise.reject({ msBeforeNext: 5_000 }) : new Promise(() => {});
      };
      const recover = () => {
        answers = true;
      };
      return { ...setUp({ [limit]: { consume } }, ports), clock: ports.clock, asked, recover };
    }

    async function threeInVain(run: (key: string) => Promise<unknown>, clock: ManualClock) {
      for (const key of ["x", "y", "z"]) {
        const running = run(key);
        await clock.advance(1_000);
        await running;
      }
    }

    test("counts as failed after a second", async () => {
      const { run, events, clock } = silent();
      const running = run("a");
      await clock.advance(999);
      expect(events).toEqual([]);
      await clock.advance(1);
      expect((await running).kind).toBe("executed");
      expect(events).toContainEqual(expect.objectContaining({ type: "limiter_error", limit }));
    });

    test("one late answer does not lift the limit", async () => {
      const { run, clock, recover } = silent();
      const running = run("a");
      await clock.advance(1_000);
      await running;
      recover();
      expect(await run("b")).toMatchObject({ kind: "too_many_keys" });
    });

    test("after three in a row it is asked again only after a second: no other request waits for it", async () => {
      const { run, events, clock, asked, recover } = silent();
      await threeInVain(run, clock);
      for (const key of ["b", "c"]) expect((await run(key)).kind).toBe("executed");
      expect(asked).toHaveLength(3);
      expect(events.filter(({ type }) => type === "limiter_error")).toHaveLength(5);
      await clock.advance(1_000);
      recover();
      expect(await run("d")).toMatchObject({ kind: "too_many_keys", because: limit, retryAfterMs: 5_000 });
      expect(await run("e")).toMatchObject({ kind: "too_many_keys" });
    });

    test("keeps one request waiting while it is tried again", async () => {
      const { run, clock, asked } = silent();
      await threeInVain(run, clock);
      await clock.advance(1_000);
      const trying = run("b");
      await clock.advance(0);
      expect((await run("c")).kind).toBe("executed");
      expect(asked).toHaveLength(4);
      await clock.advance(1_000);
      expect((await trying).kind).toBe("executed");
    });
  });

  test("without a time from the limiter, clients wait a second", async () => {
    const { run } = setUp({ lookups: { consume: () => Promise.reject({}) } });
    expect(await run("a")).toMatchObject({ kind: "too_many_keys", retryAfterMs: 1_000 });
  });
});
