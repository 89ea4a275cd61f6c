/** Leases: kept, lost, ended, and how duplicates are answered meanwhile. */
import { describe, expect, test } from "vitest";
import { answer, answers, gated, key, leaseMs, setUp } from "../../../../../test/support/lease-world.ts";
import { StoreError } from "../../errors.ts";
import { leaseRescuer } from "../../workers/lease-rescuer.ts";

describe("a lease", () => {
  test("is renewed for as long as the handler runs", async () => {
    const { submit, submitElsewhere, ports } = setUp();
    const { work, started, release } = gated();
    const first = submit(work);
    const signal = await started;
    await ports.clock.advance(leaseMs * 10);
    expect(signal.aborted).toBe(false);
    expect(await submitElsewhere(answers)).toMatchObject({ kind: "in_progress" });
    release();
    expect(await first).toMatchObject({ kind: "executed", stored: true });
  });

  test("that cannot be renewed stops its owner before another owner could take it", async () => {
    const { submit, submitElsewhere, ports, events } = setUp({}, () => ({
      renew: async () => {
        throw new StoreError("not_sent");
      },
    }));
    const { work, started, release } = gated();
    const first = submit(work);
    const signal = await started;
    await ports.clock.advance(leaseMs - 1);
    expect(signal.aborted).toBe(true);
    expect(await submitElsewhere(answers)).toMatchObject({ kind: "in_progress" });
    expect(events).toContainEqual(expect.objectContaining({ type: "lease_lost" }));
    await ports.clock.advance(1);
    const seen = await Promise.race([submitElsewhere(answers), ports.clock.advance(100)]);
    expect(seen).toMatchObject({ kind: "unknown" });
    release();
    await first;
  });

  test("whose renewal throws at once cannot be renewed", async () => {
    const { submit, ports } = setUp({}, () => ({
      renew: () => {
        throw new TypeError("not a promise");
      },
    }));
    const { work, started, release } = gated();
    const first = submit(work);
    const signal = await started;
    await ports.clock.advance(leaseMs - 1);
    expect(signal.aborted).toBe(true);
    release();
    await first;
  });

  test("that has ended means unknown under reconcile; the frozen owner settles its own, since no other attempt has begun", async () => {
    const frozen = { renew: () => new Promise<boolean>(() => {}) };
    const { submit, submitElsewhere, memory, ports, starts, other } = setUp({}, () => frozen);
    const { work, started, release } = gated();
    const first = submit(work);
    await started;
    await ports.clock.advance(leaseMs);
    expect(await leaseRescuer(other).runOnce()).toEqual({ found: 1, rescued: 1, resumed: 0 });
    expect(await submitElsewhere(answers)).toMatchObject({ kind: "unknown" });
    release();
    expect(await first).toMatchObject({ kind: "executed", stored: true });
    expect(await submitElsewhere(answers)).toMatchObject({ kind: "replay" });
    expect(starts()).toBe(1);
    expect(await memory.settlement.audit(key)).toMatchObject([{ actor: "owner", event: "settle_completed" }]);
  });

  test("that has ended and was settled by others no longer belongs to the frozen owner", async () => {
    const frozen = { renew: () => new Promise<boolean>(() => {}) };
    const { submit, ports, other } = setUp({}, () => frozen);
    const { work, started, release } = gated();
    const first = submit(work);
    await started;
    await ports.clock.advance(leaseMs);
    await leaseRescuer(other).runOnce();
    const by = { operator: "ada", reason: "asked the bank" };
    const settled = { failed: { status: 402, body: { no: true } } };
    const { record } = await other.runtime.store.read({ tenant: "t", scope: "op", key: "k" });
    const target = { tenant: "t", operation: "op", key: "k", recordId: record?.id ?? "" };
    expect(await other.settle(target, settled, by)).toMatchObject({
      kind: "settled",
    });
    release();
    expect(await first).toMatchObject({ kind: "replay", answer: { status: 402 } });
  });

  test("that has ended is taken over under rerun; the frozen owner answers with the winner's answer", async () => {
    const frozen = { renew: () => new Promise<boolean>(() => {}) };
    const { submit, submitElsewhere, ports, starts, other } = setUp({ leaseEnd: "rerun" }, () => frozen);
    const { work, started, release } = gated();
    const first = submit(work);
    await started;
    await ports.clock.advance(leaseMs);
    expect(await leaseRescuer(other).runOnce()).toEqual({ found: 0, rescued: 0, resumed: 0 });
    expect(await submitElsewhere(async () => answer(201, "winner"))).toMatchObject({ kind: "executed" });
    release();
    expect(await first).toMatchObject({ kind: "replay", answer: { status: 201 } });
    expect(starts()).toBe(2);
  });

  test("is not taken over without limit: an operation that kills its owner ends in unknown", async () => {
    const frozen = { renew: () => new Promise<boolean>(() => {}) };
    const { submit, ports, starts } = setUp({ leaseEnd: "rerun", attemptsMax: 3 }, () => frozen);
    for (let attempt = 1; attempt <= 3; attempt++) {
      const { work, started } = gated();
      void submit(work);
      await started;
      await ports.clock.advance(leaseMs);
    }
    const seen = submit(answers);
    await ports.clock.advance(100);
    expect(await seen).toMatchObject({ kind: "unknown" });
    expect(starts()).toBe(3);
  });

  test("lost by a handler that then throws: the caller gets the record's result", async () => {
    const frozen = { renew: () => new Promise<boolean>(() => {}) };
    const { submit, ports, other } = setUp({}, () => frozen);
    const { work, started, release } = gated(new Error("aborted"));
    const first = submit(work);
    await started;
    await ports.clock.advance(leaseMs);
    await leaseRescuer(other).runOnce();
    release();
    expect(await first).toMatchObject({ kind: "unknown" });
  });

  test("that outlives the attempt's limit: stopped, unknown", async () => {
    const { submit, ports } = setUp({ attemptLimitMs: 10_000 });
    const { work, started } = gated();
    const first = submit(work);
    const signal = await started;
    await ports.clock.advance(10_000);
    expect(signal.aborted).toBe(true);
    expect(await first).toMatchObject({ kind: "unknown" });
    expect(await submit(answers)).toMatchObject({ kind: "unknown" });
  });

  test("that outlives the attempt's limit and answers after all: the answer is what has happened", async () => {
    const { submit, ports } = setUp({ attemptLimitMs: 10_000 });
    const { work, started, release } = gated();
    const first = submit(work);
    await started;
    await ports.clock.advance(10_000);
    expect(await first).toMatchObject({ kind: "unknown" });
    release();
    await ports.clock.advance(1);
    expect(await submit(answers)).toMatchObject({ kind: "replay" });
  });
});

test("an owner that finds only at its end that it has lost reports it once", async () => {
  const { submit, ports, events, other } = setUp({}, () => ({ renew: async () => true }));
  const { work, started, release } = gated();
  const first = submit(work);
  await started;
  await ports.clock.advance(leaseMs);
  await leaseRescuer(other).runOnce();
  release();
  expect(await first).toMatchObject({ kind: "executed", stored: true });
  expect(events.map(({ type }) => type)).toEqual(["reserved", "lease_lost", "settled", "executed"]);
});

test("many at once: one starts, the others get in_progress", async () => {
  const { submit, ports, starts } = setUp();
  const { work, started, release } = gated();
  const all = Promise.all(Array.from({ length: 50 }, () => submit(work)));
  await started;
  await ports.clock.advance(100);
  release();
  const kinds = (await all).map((result) => result.kind);
  expect(kinds.filter((kind) => kind === "executed")).toHaveLength(1);
  expect(kinds.filter((kind) => kind === "in_progress")).toHaveLength(49);
  expect(starts()).toBe(1);
});

test.each([
  [0, 1_000],
  [1_999, 1_000],
  [2_000, 1_000],
  [6_000, 3_000],
  [19_999, 10_000],
  [20_000, 10_000],
  [600_000, 10_000],
])(
  "a duplicate after %i ms may retry in %i: later, the longer the attempt runs",
  async (age, retryAfterMs) => {
    const { submit, submitElsewhere, ports } = setUp({ leaseMs: 60_000 });
    const { work, started, release } = gated();
    const first = submit(work);
    await started;
    await ports.clock.advance(age);
    expect(await submitElsewhere(answers)).toMatchObject({ kind: "in_progress", retryAfterMs });
    release();
    await first;
  },
);

test("a duplicate may retry when the lease ends, if it is not renewed", async () => {
  const { submit, submitElsewhere, ports } = setUp({ leaseMs: 40_000 }, () => ({
    renew: async () => {
      throw new StoreError("not_sent");
    },
  }));
  const { work, started, release } = gated();
  const first = submit(work).catch(() => {});
  await started;
  await ports.clock.advance(35_000);
  expect(await submitElsewhere(answers)).toMatchObject({ kind: "in_progress", retryAfterMs: 5_000 });
  await ports.clock.advance(4_900);
  expect(await submitElsewhere(answers)).toMatchObject({ kind: "in_progress", retryAfterMs: 1_000 });
  release();
  await ports.clock.advance(100_000);
  await first;
});
