/** How workers continue attempts whose process has died, for operations that own their work. */
import { describe, expect, test } from "vitest";
import {
  frozen,
  gone,
  key,
  leaseMs,
  type Options,
  processOf,
  setUp,
  threeSteps,
  type Work,
} from "../../../../../test/support/charging-world.ts";
import type { RunAnswer } from "../../operations/owned-work.ts";

describe("a worker", () => {
  /** An attempt that has died after its first phase. */
  async function dead(work: Work, options: Options = {}) {
    const world = setUp({ options });
    void processOf(
      world,
      async (attempt) => {
        await attempt.phase("order", async () => 1);
        return new Promise<never>(() => {});
      },
      frozen,
    ).submit();
    await world.ports.clock.advance(leaseMs);
    return { world, ...processOf(world, work) };
  }

  test("tries again while attempts are left, with growing pauses", async () => {
    const { world, rescuer, submit } = await dead(
      async (attempt) => {
        await attempt.phase("order", async () => 1);
        throw new Error("not yet");
      },
      { attemptsMax: 4 },
    );
    const resumed: number[] = [];
    for (let second = 0; second < 20; second++) {
      resumed.push((await rescuer.runOnce()).resumed);
      await world.ports.clock.advance(1_000);
    }
    expect(resumed.map((count, second) => (count > 0 ? second : -1)).filter((second) => second >= 0)).toEqual(
      [0, 2, 6],
    );
    expect(await world.record()).toMatchObject({ state: "retryable", fence: { attempt: 4 } });
    await expect(submit()).rejects.toThrow("not yet");
    expect((await rescuer.runOnce()).resumed, "a request's own retries are its client's").toBe(0);
  });

  test("continues to rescue while a resumed attempt runs, and waits for that when it stops", async () => {
    const world = setUp();
    const gate = Promise.withResolvers<RunAnswer>();
    void processOf(world, threeSteps, { ...gone, kind: "none" }).submit();
    await world.ports.clock.advance(leaseMs);
    const { rescuer } = processOf(world, async (attempt) => {
      await attempt.phase("order", async () => 1);
      return gate.promise;
    });
    expect(await world.inTime(rescuer.runOnce(), 10_000)).toMatchObject({ resumed: 1 });
    expect(await world.record()).toMatchObject({ state: "in_progress", fence: { attempt: 2 } });
    expect(await rescuer.runOnce(), "it has its lease").toMatchObject({ found: 0, rescued: 0, resumed: 0 });
    let stopped = false;
    const stopping = rescuer.stop().then(() => {
      stopped = true;
    });
    await world.ports.clock.advance(1_000);
    expect(stopped).toBe(false);
    gate.resolve({ status: 201, body: "late" });
    await world.inTime(stopping, 1_000);
    expect(await world.record()).toMatchObject({ state: "unknown", lastErrorCode: "steps-changed" });
  });

  test("leaves a request's retry to its client", async () => {
    const world = setUp();
    const { submit, rescuer } = processOf(world, async (attempt) => {
      await attempt.phase("order", async () => 1);
      throw new Error("not yet");
    });
    await expect(submit()).rejects.toThrow("not yet");
    await world.ports.clock.advance(100_000);
    expect((await rescuer.runOnce()).resumed).toBe(0);
  });

  test("refuses a key inside itself, and reports it", async () => {
    let nested: unknown = null;
    const { rescuer, submit } = await dead(async (attempt) => {
      await attempt.phase("order", async () => 1);
      nested = await submit().catch((error: unknown) => error);
      return {};
    });
    expect((await rescuer.runOnce()).resumed).toBe(1);
    expect(nested).toMatchObject({ code: "nested-key" });
  });

  test("begins no new life if the record is gone", async () => {
    let runs = 0;
    const { world, latchkey } = await dead(async () => {
      runs += 1;
      return {};
    });
    const stale = await world.memory.settlement.resumable(["charge"], 10);
    const [record] = stale;
    if (record === undefined) throw new Error("nothing to resume");
    await world.memory.end(key, record.id, record.fence, { event: "release" });
    const { store } = latchkey.runtime;
    const late = processOf(
      world,
      async () => {
        runs += 1;
        return {};
      },
      { wrap: () => ({ ...store, settlement: { ...store.settlement, resumable: async () => stale } }) },
    );
    await late.rescuer.runOnce();
    expect(runs).toBe(0);
    expect(await world.record()).toBeNull();
  });
});
