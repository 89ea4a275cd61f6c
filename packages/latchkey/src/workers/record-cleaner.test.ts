import { describe, expect, test } from "vitest";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import { createLatchkey } from "../latchkey.ts";
import { memoryStore } from "../stores/memory.ts";
import type { LatchkeyEvent } from "../telemetry/events.ts";
import { recordCleaner } from "./record-cleaner.ts";

const day = 24 * 60 * 60 * 1_000;
const by = { operator: "ada", reason: "the provider's page says so" };

/** A latchkey with one audit row, and a function that counts the rows left. */
async function setUp() {
  const ports = manualPorts();
  const store = memoryStore({ ports });
  const events: LatchkeyEvent[] = [];
  const latchkey = createLatchkey({ store, ports, onEvent: (event) => events.push(event) });
  const operation = latchkey.operation("payments.charge", { execution: "lease" });
  const request = { tenant: "t", key: "k", input: {} };
  await latchkey.run(operation, request, () => Promise.reject(new Error("no answer"))).catch(() => {});
  const { record } = await store.read({ tenant: "t", scope: "payments.charge", key: "k" });
  const settled = await latchkey.settle({ recordId: record?.id ?? "" }, { completed: { body: null } }, by);
  if (settled.kind !== "settled" || record === null) throw new Error("it was unknown");
  const rows = async () => (await store.settlement.audit(record)).length;
  return { ports, store, latchkey, events, rows };
}

describe("audit rows", () => {
  test("are kept for five years", async () => {
    const { ports, latchkey, rows, events } = await setUp();
    await ports.clock.advance(5 * 365 * day - 1_000);
    expect(await recordCleaner(latchkey).runOnce()).toMatchObject({ audit: 0 });
    expect(await rows()).toBe(1);
    await ports.clock.advance(2_000);
    expect(await recordCleaner(latchkey).runOnce()).toMatchObject({ audit: 1 });
    expect(await rows()).toBe(0);
    expect(events.at(-1)).toMatchObject({ type: "cleaned", audit: 1 });
  });

  test("are kept for `auditRetentionMs`, or forever", async () => {
    const { ports, latchkey, rows } = await setUp();
    await ports.clock.advance(30 * 365 * day);
    expect(await recordCleaner(latchkey, { auditRetentionMs: "forever" }).runOnce()).toMatchObject({
      audit: 0,
    });
    expect(await rows()).toBe(1);
    expect(await recordCleaner(latchkey, { auditRetentionMs: 90 * day }).runOnce()).toMatchObject({
      audit: 1,
    });
  });

  test("stay in a store that cannot remove them by age", async () => {
    const { ports, store } = await setUp();
    const { cleanAudit: _, ...without } = store;
    const latchkey = createLatchkey({ store: without, ports });
    expect(await recordCleaner(latchkey, { auditRetentionMs: 1 }).runOnce()).toMatchObject({ audit: 0 });
  });

  test.each([0, -1, 1.5, Number.NaN])("a retention of %s is refused", async (auditRetentionMs) => {
    const { latchkey } = await setUp();
    expect(() => recordCleaner(latchkey, { auditRetentionMs })).toThrow(/auditRetentionMs/u);
  });
});
