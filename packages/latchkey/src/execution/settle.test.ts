import { describe, expect, test } from "vitest";
import {
  type ChargeInput,
  chargeEffect,
  DownstreamLedger,
  type SendFault,
} from "../../../../test/support/downstream-ledger.ts";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import { createLatchkey } from "../latchkey.ts";
import type { CallStep } from "../stores/journal.ts";
import { type MemoryTransaction, memoryStore } from "../stores/memory.ts";
import { leaseRescuer } from "../workers/lease-rescuer.ts";
import type { SettledBy, SettleWith } from "./settle.ts";

const key = { tenant: "t", scope: "charge", key: "k" };
const target = { tenant: "t", operation: "charge", key: "k" };
const ada = { operator: "ada", reason: "asked the bank" };

/** A call of kind `none` whose reply is lost. */
async function unknown(...faults: SendFault[]) {
  const ports = manualPorts();
  const store = memoryStore({ ports });
  const ledger = new DownstreamLedger({ deduplicates: false });
  const latchkey = createLatchkey<MemoryTransaction>({ store, ports });
  const sends = faults.length === 0 ? ["lost_after" as const] : faults;
  const effect = latchkey.effect(
    "charge",
    chargeEffect(ledger, "none", () => sends.shift() ?? "proceed"),
  );
  const operation = latchkey.operation("charge", {
    execution: "lease",
    version: "1",
    run: async (input: ChargeInput, attempt) => ({
      status: 201,
      body: await attempt.call("charged", effect, input),
    }),
  });
  const submit = () => latchkey.run(operation, { tenant: "t", key: "k", input: { amount: 5 } });
  expect(await submit()).toMatchObject({ kind: "unknown" });
  const record = async () => (await store.read(key)).record;
  const steps = async () => (await store.journal.read(key, (await record())?.id ?? ""))?.steps;
  const audit = () => store.settlement.audit(key);
  const recordId = (await record())?.id ?? "";
  const named = { ...target, recordId };
  const settle = (settlement: SettleWith, by?: SettledBy) => latchkey.settle(named, settlement, by);
  return { ports, store, latchkey, ledger, submit, record, steps, audit, settle, recordId, named };
}

describe("latchkey.settle", () => {
  test("one call has happened: its result is stored, and the operation continues", async () => {
    const world = await unknown();
    const webhook = { call: "charged", result: { id: "ch_1", amount: 5 } };
    expect(await world.settle(webhook)).toMatchObject({ kind: "settled" });
    expect(await world.audit()).toMatchObject([
      { event: "settle_call", actor: "webhook", proof: "webhook", reason: null },
    ]);
    await leaseRescuer(world.latchkey).runOnce();
    expect(await world.submit()).toMatchObject({ kind: "replay", value: { id: "ch_1" } });
    expect(world.ledger.charges).toHaveLength(1);
  });

  test("repeated, it is still settled, and written once", async () => {
    const world = await unknown();
    const webhook = { call: "charged", result: { id: "ch_1" } };
    await world.settle(webhook);
    expect(await world.settle(webhook)).toMatchObject({ kind: "settled" });
    expect(await world.audit()).toHaveLength(1);
    expect(await world.settle({ ...webhook, result: { id: "ch_2" } })).toMatchObject({
      kind: "not_unknown",
      state: "retryable",
    });
    await world.submit();
    expect(await world.settle({ completed: { body: 1 } }, ada)).toMatchObject({
      kind: "not_unknown",
      state: "completed",
    });
    expect(await world.audit()).toHaveLength(1);
  });

  test("all of it has happened, or has failed for good: the answer is replayed", async () => {
    const done = await unknown();
    expect(await done.settle({ completed: { status: 201, body: "by hand" } }, ada)).toMatchObject({
      kind: "settled",
    });
    expect(await done.submit()).toMatchObject({ kind: "replay", status: 201, value: "by hand" });
    expect(await done.audit()).toMatchObject([{ actor: "ada", proof: "operator", reason: "asked the bank" }]);
    const failed = await unknown();
    await failed.settle({ failed: { status: 402 } }, ada);
    expect(await failed.record()).toMatchObject({ state: "failed", lastErrorCode: "settled-failed" });
    expect(await failed.submit()).toMatchObject({ kind: "replay", status: 402 });
  });

  test("it has not happened, by an operator's word: sent again under the same key", async () => {
    const world = await unknown();
    expect(await world.settle({ notExecuted: ada })).toMatchObject({ kind: "settled" });
    expect(await world.steps()).toMatchObject([{ state: "not_executed", generation: 0 }]);
    expect(await world.audit()).toMatchObject([{ actor: "ada", proof: "operator" }]);
    expect(await world.submit()).toMatchObject({ kind: "executed", status: 201 });
  });

  test("closed on the other side: sent again under the next key", async () => {
    const world = await unknown();
    await world.settle({ notExecuted: "closed-downstream" }, ada);
    expect(await world.steps()).toMatchObject([{ state: "not_executed", generation: 1 }]);
    expect(await world.audit()).toMatchObject([
      { actor: "ada", proof: "closed-downstream", reason: "asked the bank" },
    ]);
    await world.submit();
    expect(new Set(world.ledger.requests.map(({ key: sent }) => sent)).size).toBe(2);
  });

  test("an earlier settlement does not settle a later doubt, only one with a new reason does", async () => {
    const world = await unknown("lost_before", "lost_after");
    await world.settle({ notExecuted: ada });
    expect(await world.submit()).toMatchObject({ kind: "unknown" });
    expect(await world.settle({ notExecuted: ada })).toMatchObject({ kind: "unknown_again" });
    expect(await world.record()).toMatchObject({ state: "unknown" });
    expect(await world.audit()).toHaveLength(1);
    const anew = { operator: "ada", reason: "asked the bank again" };
    expect(await world.settle({ notExecuted: anew })).toMatchObject({ kind: "settled" });
    expect(await world.record()).toMatchObject({ state: "retryable" });
    expect(await world.audit()).toHaveLength(2);
  });

  test("a repeated or late webhook does not free a call that was sent since", async () => {
    const world = await unknown("lost_before", "lost_after");
    const [{ downstreamKey = "" } = {}] = ((await world.steps()) ?? []) as CallStep[];
    const closed = { notExecuted: "closed-downstream", downstreamKey } as const;
    await expect(world.settle({ notExecuted: "closed-downstream" })).rejects.toThrow("must name the call");
    expect(await world.settle(closed)).toMatchObject({ kind: "settled" });
    expect(await world.settle(closed)).toMatchObject({ kind: "settled" });
    expect(await world.submit()).toMatchObject({ kind: "unknown" });
    expect(world.ledger.charges).toHaveLength(1);
    expect(await world.settle(closed)).toMatchObject({ kind: "unknown_again" });
    expect(await world.settle(closed, ada), "another operator settles it, late").toMatchObject({
      kind: "no_such_call",
    });
    expect(await world.record()).toMatchObject({ state: "unknown" });
    const next = ((await world.steps()) ?? []) as CallStep[];
    expect(next).toMatchObject([{ state: "started", generation: 1 }]);
    expect(await world.settle({ ...closed, downstreamKey: next[0]?.downstreamKey ?? "" })).toMatchObject({
      kind: "settled",
    });
  });

  test("a webhook about one call, repeated while another is in doubt, is already settled", async () => {
    const ports = manualPorts();
    const store = memoryStore({ ports });
    const latchkey = createLatchkey<MemoryTransaction>({ store, ports });
    const lost = latchkey.effect("lost", {
      deduplication: "none",
      execute: async (): Promise<unknown> => Promise.reject(new Error("socket hang up")),
    });
    const operation = latchkey.operation("charge", {
      execution: "lease",
      version: "1",
      run: async (_: null, attempt) => ({
        body: [await attempt.call("one", lost, 1), await attempt.call("two", lost, 2)],
      }),
    });
    const submit = () => latchkey.run(operation, { tenant: "t", key: "k", input: null });
    const webhook = { call: "one", result: 1 };
    await submit();
    const recordId = (await store.read(key)).record?.id ?? "";
    expect(await latchkey.settle({ recordId }, webhook)).toMatchObject({ kind: "settled" });
    expect(await submit()).toMatchObject({ kind: "unknown" });
    expect(await latchkey.settle({ recordId }, webhook)).toMatchObject({ kind: "settled" });
    expect(await latchkey.settle({ recordId }, { call: "two", result: 2 })).toMatchObject({
      kind: "settled",
    });
    expect(await submit()).toMatchObject({ kind: "executed", value: [1, 2] });
  });

  test("the other side deduplicates: the call stays as it is", async () => {
    const ports = manualPorts();
    const store = memoryStore({ ports });
    const latchkey = createLatchkey<MemoryTransaction>({ store, ports });
    const provider = latchkey.effect("charge", {
      deduplication: "provider",
      dedupeWindowMs: 3_600_000,
      retry: { attempts: 1 },
      execute: async (): Promise<unknown> => Promise.reject(new Error("socket hang up")),
    });
    const operation = latchkey.operation("charge", {
      execution: "lease",
      version: "1",
      run: async (_: null, attempt) => ({ body: await attempt.call("charged", provider, 1) }),
    });
    const submit = () => latchkey.run(operation, { tenant: "t", key: "k", input: null });
    expect(await submit()).toMatchObject({ kind: "unknown" });
    const settled = { kind: "settled" };
    const { record } = await store.read(key);
    expect(
      await latchkey.settle({ recordId: record?.id ?? "" }, { notExecuted: "downstream-deduplicates" }),
    ).toMatchObject(settled);
    const journal = await store.journal.read(key, record?.id ?? "");
    expect(journal?.steps).toMatchObject([{ state: "started", generation: 0 }]);
    expect(await store.settlement.audit(key)).toMatchObject([
      { actor: "webhook", proof: "downstream-deduplicates" },
    ]);
  });

  test.each(["webhook", ada] as const)(
    "downstream-deduplicates is rejected for a call that the other side does not deduplicate (%j)",
    async (by) => {
      const world = await unknown();
      const settling = world.settle({ notExecuted: "downstream-deduplicates" }, by);
      await expect(settling).rejects.toThrow(TypeError);
      await expect(settling).rejects.toThrow("deduplication is `none`");
      expect(await world.record()).toMatchObject({ state: "unknown" });
      expect(await world.audit()).toEqual([]);
      const elsewhere = createLatchkey<MemoryTransaction>({ store: world.store, ports: world.ports });
      expect(
        await elsewhere.settle(world.named, { notExecuted: "downstream-deduplicates" }, by),
        "if the effect is not known",
      ).toMatchObject({ kind: "settled" });
      expect(await world.submit(), "it is still not sent again").toMatchObject({ kind: "unknown" });
      expect(world.ledger.requests).toHaveLength(1);
    },
  );

  test.each([
    undefined,
    "",
    "trust me",
    { operator: "ada" },
    { operator: "ada", reason: " " },
    { reason: "because" },
  ])("refuses an invalid proof: %j", async (proof) => {
    const world = await unknown();
    await expect(world.settle({ notExecuted: proof as never })).rejects.toThrow("needs a proof");
    await expect(
      world.settle({ completed: {} }, proof === undefined ? (null as never) : (proof as never)),
    ).rejects.toThrow("needs a proof");
    expect(await world.record()).toMatchObject({ state: "unknown" });
    expect(await world.audit()).toEqual([]);
  });

  test("reports what does not exist", async () => {
    const world = await unknown();
    expect(await world.latchkey.settle({ ...world.named, key: "other" }, { failed: {} })).toEqual({
      kind: "not_found",
    });
    expect(await world.settle({ call: "other", result: 1 })).toMatchObject({ kind: "no_such_call" });
    await expect(world.settle({ call: "charged", result: 1n })).rejects.toThrow(TypeError);
    expect(await world.record()).toMatchObject({ state: "unknown" });
  });

  test("reaches keys that are unique to a tenant, and records of processes that do not know the operation", async () => {
    const { store, ports, named } = await unknown();
    const other = createLatchkey<MemoryTransaction>({ store, ports });
    expect(await other.settle(named, { completed: { body: "elsewhere" } })).toMatchObject({
      kind: "settled",
    });
    expect((await store.read(key)).record).toMatchObject({ state: "completed" });

    const wide = other.operation("wide", { execution: "lease", keyScope: "tenant" });
    const once = { tenant: "t", key: "w", input: null };
    await expect(other.run(wide, once, () => Promise.reject(new Error("?")))).rejects.toThrow("?");
    const { record } = await store.read({ tenant: "t", scope: "*", key: "w" });
    const settled = await other.settle(
      { tenant: "t", operation: "wide", key: "w", recordId: record?.id ?? "" },
      { completed: { body: 7 } },
    );
    expect(settled).toMatchObject({ kind: "settled" });
    expect(await other.run(wide, once, async () => 1)).toMatchObject({ kind: "replay", value: 7 });
  });
});
