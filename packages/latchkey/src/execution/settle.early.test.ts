/** Settlements that arrive before the outcome is known to be in doubt. */
import { expect, test } from "vitest";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import { createLatchkey } from "../latchkey.ts";
import type { CallStep } from "../stores/journal.ts";
import { type MemoryTransaction, memoryStore } from "../stores/memory.ts";
import type { Store } from "../stores/store.ts";
import { leaseRescuer } from "../workers/lease-rescuer.ts";

const leaseMs = 30_000;
const happened = { result: { id: "ch_1" } };
const replayed = { kind: "replay", value: { id: "ch_1" } };
const lostReply = () => Promise.reject(new Error("socket hang up"));

interface Sent {
  readonly key: string;
  readonly reply: (outcome: () => Promise<unknown>) => void;
}

/** An operation with a call whose reply the test decides. */
function world(change: (store: Store<MemoryTransaction>) => Partial<Store<MemoryTransaction>> = () => ({})) {
  const ports = manualPorts();
  const memory = memoryStore({ ports });
  const store = { ...memory, ...change(memory) };
  const events: string[] = [];
  const latchkey = createLatchkey<MemoryTransaction>({
    store,
    ports,
    onEvent: ({ type }) => events.push(type),
  });
  let arrived = Promise.withResolvers<Sent>();
  const effect = latchkey.effect<number, unknown>("pay", {
    deduplication: "none",
    execute: (_input, { key }) => {
      const reply = Promise.withResolvers<unknown>();
      arrived.resolve({ key, reply: (outcome) => void outcome().then(reply.resolve, reply.reject) });
      return reply.promise;
    },
  });
  const operation = latchkey.operation("charge", {
    execution: "lease",
    leaseMs,
    version: "1",
    run: async (_: null, attempt) => ({ body: await attempt.call("charged", effect, 1) }),
  });
  const submit = () => latchkey.run(operation, { tenant: "t", key: "k", input: null });
  const place = { tenant: "t", scope: "charge", key: "k" };
  return {
    ports,
    store,
    memory,
    latchkey,
    events,
    submit,
    audit: () => store.settlement.audit(place),
    record: async () => (await memory.read(place)).record,
    call: async () =>
      (await memory.journal.read(place, (await memory.read(place)).record?.id ?? ""))?.steps[0] as CallStep,
    async sent() {
      const sent = await arrived.promise;
      arrived = Promise.withResolvers<Sent>();
      return sent;
    },
  };
}

test("a webhook that arrives before the doubt is kept, and the request gets its answer", async () => {
  const { latchkey, submit, sent, audit, record, events } = world();
  const first = submit();
  const { key, reply } = await sent();
  for (const _ of [1, 2]) {
    expect(await latchkey.settle({ downstreamKey: key }, happened)).toMatchObject({ kind: "kept" });
  }
  expect(await record()).toMatchObject({ state: "in_progress" });
  expect(await audit(), "nothing is settled yet").toEqual([]);
  reply(lostReply);
  expect(await first).toMatchObject({ kind: "executed", value: { id: "ch_1" } });
  expect(await audit()).toMatchObject([
    { event: "settle_call", from: "unknown", to: "retryable", actor: "webhook", proof: "webhook" },
  ]);
  expect(await latchkey.settle({ downstreamKey: key }, happened), "again").toMatchObject({ kind: "settled" });
  expect(await submit()).toMatchObject(replayed);
  expect(events.filter((type) => type === "settled" || type === "settlement_kept")).toEqual([
    "settlement_kept",
    "settlement_kept",
    "settled",
  ]);
});

test("if the attempt ends well, its result counts and the kept settlement is dropped", async () => {
  const { latchkey, submit, sent, audit, record } = world();
  const first = submit();
  const { key, reply } = await sent();
  const completed = { completed: { status: 202, body: "by webhook" } };
  expect(await latchkey.settle({ downstreamKey: key }, completed)).toMatchObject({ kind: "kept" });
  reply(async () => ({ id: "ch_own" }));
  expect(await first).toMatchObject({ kind: "executed", value: { id: "ch_own" } });
  expect(await submit()).toMatchObject({ kind: "replay", value: { id: "ch_own" } });
  expect(await audit()).toEqual([]);
  expect(await latchkey.settle({ downstreamKey: key }, completed)).toMatchObject({
    kind: "not_unknown",
    state: "completed",
  });
  expect(await record()).toMatchObject({ state: "completed" });
});

test.each([
  ["completed", { completed: { status: 201, body: 1 } }, { kind: "replay", status: 201 }],
  ["failed", { failed: { status: 402 } }, { kind: "replay", status: 402 }],
] as const)("the whole operation, settled early: %s", async (_, settlement, answer) => {
  for (const named of ["record", "call"] as const) {
    const { latchkey, submit, sent, record } = world();
    const first = submit();
    const { key, reply } = await sent();
    const target = named === "call" ? { downstreamKey: key } : { recordId: (await record())?.id ?? "" };
    expect(await latchkey.settle(target, settlement)).toMatchObject({ kind: "kept" });
    reply(lostReply);
    expect(await first).toMatchObject(answer);
  }
});

test("closed on the other side, settled early: sent again under the next key once it is in doubt", async () => {
  const { latchkey, submit, sent, call } = world();
  const first = submit();
  const { key, reply } = await sent();
  const closed = { notExecuted: "closed-downstream" } as const;
  expect(await latchkey.settle({ downstreamKey: key }, closed)).toMatchObject({ kind: "kept" });
  reply(lostReply);
  const second = await sent();
  expect(second.key).not.toBe(key);
  expect(await call()).toMatchObject({ generation: 1 });
  expect(await latchkey.settle({ downstreamKey: key }, happened), "the generation before").toMatchObject({
    kind: "not_unknown",
  });
  second.reply(async () => ({ id: "ch_1" }));
  expect(await first).toMatchObject({ kind: "executed", value: { id: "ch_1" } });
});

test("notExecuted is not kept: the attempt may still make it happen", async () => {
  const { latchkey, submit, sent, record } = world();
  const first = submit();
  const { reply } = await sent();
  const recordId = (await record())?.id ?? "";
  const ada = { operator: "ada", reason: "no charge to be seen" };
  expect(await latchkey.settle({ recordId }, { notExecuted: ada })).toMatchObject({
    kind: "not_unknown",
    state: "in_progress",
  });
  reply(lostReply);
  expect(await first).toMatchObject({ kind: "unknown" });
});

test("an owner that dies after the webhook: the next request, or the lease-rescuer, settles with it", async () => {
  for (const by of ["request", "rescuer"] as const) {
    const frozen = () => ({ renew: () => new Promise<boolean>(() => {}) });
    const { latchkey, submit, sent, ports, record } = world(frozen);
    void submit().catch(() => {});
    const { key } = await sent();
    expect(await latchkey.settle({ downstreamKey: key }, happened)).toMatchObject({ kind: "kept" });
    await ports.clock.advance(2 * leaseMs);
    if (by === "rescuer") await leaseRescuer(latchkey).runOnce();
    expect(await submit()).toMatchObject({ value: { id: "ch_1" } });
    expect(await record()).toMatchObject({ state: "completed" });
  }
});

test("a process that ends between the doubt and the settlement loses nothing", async () => {
  for (const by of ["request", "rescuer", "the webhook, come again"] as const) {
    let down = true;
    const flaky = ({ settlement }: Store<MemoryTransaction>) => ({
      settlement: {
        ...settlement,
        settle: (...given: Parameters<typeof settlement.settle>) =>
          down ? Promise.reject(new Error("the process has ended")) : settlement.settle(...given),
      },
    });
    const { latchkey, submit, sent, record } = world(flaky);
    const first = submit();
    const { key, reply } = await sent();
    await latchkey.settle({ downstreamKey: key }, happened);
    reply(lostReply);
    expect(await first).toMatchObject({ kind: "unknown" });
    expect(await record()).toMatchObject({ state: "unknown" });
    down = false;
    if (by === "rescuer") await leaseRescuer(latchkey).runOnce();
    if (by.startsWith("the webhook")) {
      expect(await latchkey.settle({ downstreamKey: key }, happened)).toMatchObject({ kind: "settled" });
    }
    expect(await submit()).toMatchObject({ value: { id: "ch_1" } });
  }
});

test("a failure settled for one attempt does not apply to the next", async () => {
  const { latchkey, submit, sent, record, memory } = world();
  const first = submit();
  const { reply } = await sent();
  const recordId = (await record())?.id ?? "";
  expect(await latchkey.settle({ recordId }, { failed: { status: 402 } })).toMatchObject({ kind: "kept" });
  const place = { tenant: "t", scope: "charge", key: "k" };
  const running = await record();
  if (running?.state !== "in_progress") throw new Error("it runs");
  const owner = { key: place, id: recordId, fence: running.fence };
  await memory.journal.endCall(owner, { name: "charged", generation: 0 }, { event: "not_executed" });
  const later = { event: "retry_later", errorCode: "x", resumeAfterMs: null } as const;
  await memory.end(place, recordId, running.fence, later);
  reply(lostReply);
  await first.catch(() => {});
  const second = submit();
  (await sent()).reply(lostReply);
  expect(await second).toMatchObject({ kind: "unknown" });
  expect(await record()).toMatchObject({ state: "unknown", id: recordId });
});
