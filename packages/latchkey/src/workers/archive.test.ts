import { describe, expect, test } from "vitest";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import { createLatchkey } from "../latchkey.ts";
import type { ForgottenRecord } from "../stores/archival.ts";
import { memoryStore } from "../stores/memory.ts";
import type { LatchkeyEvent } from "../telemetry/events.ts";
import { recordCleaner } from "./record-cleaner.ts";

const day = 24 * 60 * 60 * 1_000;

/** A latchkey with the given number of expired records. */
async function setUp(count: number) {
  const ports = manualPorts();
  const store = memoryStore({ ports });
  const events: LatchkeyEvent[] = [];
  const latchkey = createLatchkey({ store, ports, strict: false, onEvent: (event) => events.push(event) });
  const operation = latchkey.operation("orders.create", { retentionMs: day, forgetAfterMs: day });
  for (let at = 0; at < count; at += 1) {
    await latchkey.run(operation, { tenant: "t", key: `k-${at}`, input: {} }, async () => ({ at }));
  }
  await ports.clock.advance(2 * day);
  const left = async () => {
    const filter = { tenant: null, operation: null, limit: 1_000, after: null } as const;
    return (await store.settlement.list({ ...filter, state: "completed" })).length;
  };
  return { ports, store, latchkey, events, left };
}

describe("the record-cleaner with an archive", () => {
  test("passes it batches of at most 100 records with their answers, and forgets them once it resolves", async () => {
    const { latchkey, left, events } = await setUp(250);
    const archived: (readonly ForgottenRecord[])[] = [];
    const seen: number[] = [];
    const cleaner = recordCleaner(latchkey, {
      async archive(records) {
        seen.push(await left());
        archived.push(records);
      },
    });
    expect(await cleaner.runOnce()).toMatchObject({ forgotten: 250, purged: 0 });
    expect(archived.map(({ length }) => length)).toEqual([100, 100, 50]);
    expect(seen, "they are there until it has resolved").toEqual([250, 150, 50]);
    expect(await left()).toBe(0);
    const [first] = archived.flat();
    expect(first?.state === "completed" && first.answer?.length).toBeGreaterThan(0);
    expect(events).toContainEqual(expect.objectContaining({ type: "cleaned", forgotten: 250 }));
  });

  test("keeps the records when it rejects, cleans the rest, and reports the failure", async () => {
    const { latchkey, left, events, ports } = await setUp(150);
    let calls = 0;
    const full = new Error("disk full");
    let isFull = true;
    const archive = async () => {
      calls += 1;
      if (isFull && calls === 2) throw full;
    };
    const cleaner = recordCleaner(latchkey, { archive, intervalMs: 1_000 });
    await expect(cleaner.runOnce()).rejects.toMatchObject({ code: "archive-failed", cause: full });
    expect(await left(), "the first batch has gone").toBe(50);
    expect(events.at(-1)).toMatchObject({ type: "cleaned", forgotten: 100 });
    calls = 1;
    cleaner.start();
    await ports.clock.advance(100);
    expect(events.at(-1)).toMatchObject({ type: "service_error", service: "record-cleaner" });
    expect(cleaner.health().lastError).toMatchObject({ code: "archive-failed" });
    expect(await left()).toBe(50);
    isFull = false;
    await ports.clock.advance(2_000);
    expect(await left(), "they come again").toBe(0);
    await cleaner.stop();
  });

  test("does not forget a batch whose archive resolves after the round's time limit", async () => {
    const { latchkey, left, ports } = await setUp(3);
    const slow = Promise.withResolvers<void>();
    const signals: AbortSignal[] = [];
    const cleaner = recordCleaner(latchkey, {
      intervalMs: day,
      archive(_records, { signal }) {
        signals.push(signal);
        return slow.promise;
      },
    });
    cleaner.start();
    await ports.clock.advance(61_000);
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
    slow.resolve();
    await cleaner.stop();
    await ports.clock.advance(1);
    expect(await left()).toBe(3);
  });

  test("may pass it a record twice, but forgets the record once", async () => {
    const { latchkey, left } = await setUp(3);
    const ids: string[] = [];
    const archive = async (records: readonly ForgottenRecord[]) =>
      void ids.push(...records.map(({ id }) => id));
    const [one, other] = [recordCleaner(latchkey, { archive }), recordCleaner(latchkey, { archive })];
    const reports = await Promise.all([one.runOnce(), other.runOnce()]);
    expect(reports.reduce((sum, { forgotten }) => sum + forgotten, 0)).toBe(3);
    expect(new Set(ids).size).toBe(3);
    expect(await left()).toBe(0);
  });

  test("is refused on a store that forgets by itself", async () => {
    const { archival: _, ...store } = memoryStore();
    const latchkey = createLatchkey({ store });
    expect(() => recordCleaner(latchkey, { archive: async () => {} })).toThrow(
      /store memory cannot archive/u,
    );
    expect(() => latchkey.startWorker({ recordCleaner: { archive: async () => {} } })).toThrow(TypeError);
  });
});
