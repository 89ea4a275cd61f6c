/** How a settlement names its target, and that it never affects another life. */
import { describe, expect, test } from "vitest";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import { createLatchkey } from "../latchkey.ts";
import type { CallStep } from "../stores/journal.ts";
import { type MemoryTransaction, memoryStore } from "../stores/memory.ts";
import { recordCleaner } from "../workers/record-cleaner.ts";

const day = 24 * 60 * 60 * 1000;
const ada = { operator: "ada", reason: "asked the bank" };

interface Seen {
  readonly key: string | null;
  readonly id: string;
  readonly stored: string;
}

/** An operation whose one call is in doubt after each submission, until it is settled. */
function world(keySecret?: string) {
  const ports = manualPorts();
  const store = memoryStore({ ports });
  const latchkey = createLatchkey<MemoryTransaction>({ store, ports, ...(keySecret ? { keySecret } : {}) });
  const seen: Seen[] = [];
  const lost = latchkey.effect("lost", {
    deduplication: "none",
    execute: async (): Promise<unknown> => Promise.reject(new Error("socket hang up")),
  });
  const operation = latchkey.operation("charge", {
    execution: "lease",
    version: "1",
    run: async (_: null, attempt) => {
      seen.push({ key: attempt.key, id: attempt.id, stored: attempt.record.key });
      return { body: await attempt.call("charged", lost, 1) };
    },
  });
  const submit = (key = "k") => latchkey.run(operation, { tenant: "t", key, input: null });
  const last = () => seen.at(-1) as Seen;
  const record = async () => (await store.read({ tenant: "t", scope: "charge", key: last().stored })).record;
  const call = async () => {
    const journal = await store.journal.read({ tenant: "t", scope: "charge", key: last().stored }, last().id);
    return journal?.steps[0] as CallStep;
  };
  return { ports, store, latchkey, submit, seen, last, record, call };
}

const happened = { call: "charged", result: { id: "ch_1" } };
const settled = { kind: "settled" };

describe("a settlement", () => {
  test("repeated after the key began a new life leaves that one alone", async () => {
    const { latchkey, submit, last, ports, record, call } = world();
    await submit();
    const before = { recordId: last().id, downstreamKey: (await call()).downstreamKey };
    expect(await latchkey.settle({ recordId: before.recordId }, happened)).toMatchObject(settled);
    expect(await submit()).toMatchObject({ kind: "executed" });
    await ports.clock.advance(2 * day);
    await recordCleaner(latchkey).runOnce();
    expect(await submit()).toMatchObject({ kind: "unknown" });
    expect(last().id).not.toBe(before.recordId);
    const key = { tenant: "t", operation: "charge", key: "k" };
    const other = { kind: "other_life", recordId: last().id };
    for (const outcome of [happened, { completed: { body: 1 } }, { failed: { status: 402 } }]) {
      expect(await latchkey.settle({ recordId: before.recordId }, outcome)).toEqual({ kind: "not_found" });
      expect(await latchkey.settle({ downstreamKey: before.downstreamKey }, outcome)).toEqual({
        kind: "not_found",
      });
      expect(await latchkey.settle({ ...key, recordId: before.recordId }, outcome)).toEqual(other);
      expect(await latchkey.settle({ ...key, downstreamKey: before.downstreamKey }, outcome)).toEqual(other);
      expect(await latchkey.settle(key, { ...outcome, downstreamKey: before.downstreamKey })).toEqual(other);
    }
    expect(await record()).toMatchObject({ state: "unknown" });
  });

  test("by the client's key alone is refused with a remedy", async () => {
    const { latchkey, submit, record } = world();
    await submit();
    for (const target of [{ tenant: "t", operation: "charge", key: "k" }, {} as never]) {
      for (const by of ["webhook", ada] as const) {
        const saying = latchkey.settle(target, { completed: {} }, by);
        await expect(saying).rejects.toThrow("name the record by its `recordId`");
        await expect(saying).rejects.toThrow(TypeError);
      }
    }
    const half = { recordId: (await record())?.id ?? "", key: "k" } as never;
    await expect(latchkey.settle(half, { completed: {} })).rejects.toThrow("`tenant` and `operation`");
    expect(await record()).toMatchObject({ state: "unknown" });
  });

  test.each([undefined, "a-secret-of-more-than-thirty-two-characters"])(
    "names its record by id, by downstream key, and by the key in every form (keySecret %s)",
    async (keySecret) => {
      for (const form of ["id", "downstream", "bare", "quoted", "stored", "named twice"]) {
        const { latchkey, submit, last, call, record } = world(keySecret);
        expect(await submit("order-1")).toMatchObject({ kind: "unknown" });
        expect(last().key, "the client's key").toBe("order-1");
        const { downstreamKey } = await call();
        const recordId = last().id;
        const named = { tenant: "t", operation: "charge", recordId };
        const target = {
          id: { recordId },
          downstream: { downstreamKey },
          bare: { ...named, key: "order-1" },
          quoted: { ...named, key: '"order-1"' },
          stored: { ...named, key: last().stored },
          "named twice": { ...named, key: "order-1", downstreamKey },
        }[form];
        if (target === undefined) throw new Error(form);
        const outcome = form === "downstream" ? { result: { id: "ch_1" } } : happened;
        expect(await latchkey.settle(target, outcome), form).toEqual({ ...settled, recordId });
        expect(await latchkey.settle(target, outcome), "repeated").toEqual({ ...settled, recordId });
        expect(await record()).toMatchObject({ state: "retryable" });
        expect(await submit("order-1")).toMatchObject({ kind: "executed", value: { id: "ch_1" } });
      }
    },
  );

  test("that names another record than its key, tenant or operation finds nothing", async () => {
    const { latchkey, submit, last, call, record } = world();
    await submit("a");
    const { downstreamKey } = await call();
    const recordId = last().id;
    await submit("b");
    const notFound = { kind: "not_found" };
    expect(await latchkey.settle({ recordId, tenant: "other" }, happened)).toEqual(notFound);
    expect(await latchkey.settle({ downstreamKey, operation: "refund" }, happened)).toEqual(notFound);
    expect(await latchkey.settle({ recordId: "order-1" }, happened)).toEqual(notFound);
    expect(await latchkey.settle({ recordId: last().id, downstreamKey }, happened)).toEqual(notFound);
    const key = { tenant: "t", operation: "charge", key: "b" };
    expect(await latchkey.settle({ ...key, recordId }, happened)).toMatchObject({ kind: "other_life" });
    expect(await latchkey.settle({ ...key, downstreamKey }, happened)).toMatchObject({ kind: "other_life" });
    await expect(
      latchkey.settle({ downstreamKey }, { ...happened, downstreamKey: "lk_other" }),
    ).rejects.toThrow("different downstream keys");
    expect(await record()).toMatchObject({ state: "unknown" });
  });
});
