/** What operators do, on a real Postgres: queues, one record, settling, dead letters. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { message } from "../../../../test/brokers/inbox-arrange.ts";
import {
  bareDoubt,
  begin,
  bytes,
  callInDoubt,
  endInDoubt,
  keyOf,
  openPlace,
  ownerOf,
  type Place,
  resumeIntoDoubt,
  stateOf,
} from "../../../../test/cli/arrange.ts";
import { encryptionCodec } from "../encryption.ts";
import { createInbox, createLatchkey } from "../index.ts";
import { systemPorts } from "../ports.ts";
import { memoryStore } from "../stores/memory.ts";
import { createOperator, type Operator, type Outcome, type Settled } from "./index.ts";

const ada = { operator: "ada", reason: "the provider's page says so" };
const bob = { operator: "bob", reason: "ticket 12" };

let place: Place;
let operator: Operator;
beforeAll(async () => {
  place = await openPlace();
  operator = createOperator({ latchkey: createLatchkey({ store: place.store }) });
});
afterAll(() => place.close());

async function seen(id: string) {
  const found = await operator.inspect(id);
  if (found.kind !== "record") throw new Error(`${id} is ${found.kind}`);
  return { recordId: found.report.id, attempt: found.report.attempt, report: found.report };
}

const notExecuted = (downstreamKey: string | null): Outcome => ({
  outcome: "not-executed",
  proof: "operator",
  downstreamKey,
});

function refusalOf(settled: Settled) {
  if (settled.kind !== "refused") throw new Error("it was settled");
  return `${settled.title} ${settled.detail}`;
}

describe("queues", () => {
  const tenant = "queues";
  beforeAll(async () => {
    for (const n of [1, 2, 3]) await bareDoubt(place, keyOf(`threw-${n}`, { tenant }));
    for (const n of [1, 2]) await callInDoubt(place, keyOf(`call-${n}`, { tenant }));
  });
  const keysOf = async (filter: object, page = {}) => {
    const { items, next } = await operator.records("unknown", { tenant, ...filter }, page);
    return { keys: items.map(({ key }) => key), next };
  };

  test("are filtered beyond what stores support, and read page by page", async () => {
    expect(await keysOf({ errorCode: "call-in-doubt" })).toEqual({ keys: ["call-1", "call-2"], next: null });
    const first = await keysOf({}, { limit: 2 });
    expect(first.keys).toEqual(["threw-1", "threw-2"]);
    const second = await keysOf({}, { limit: 2, from: first.next });
    expect(second.keys).toEqual(["threw-3", "call-1"]);
    expect(await keysOf({}, { limit: 2, from: second.next })).toEqual({ keys: ["call-2"], next: null });
    expect((await keysOf({}, { limit: 5 })).next, "a full page can be the last").toBeNull();
    const { items } = await operator.records("unknown", { tenant });
    const third = Date.parse(items[2]?.createdAt ?? "");
    expect((await keysOf({ notAfter: third })).keys.slice(0, 3)).toEqual(["threw-1", "threw-2", "threw-3"]);
    expect((await keysOf({ after: third })).keys).not.toContain("threw-3");
  });

  test("are counted by cause, age and tenant", async () => {
    const census = await operator.census("unknown");
    expect(census.more).toBe(false);
    expect(census.causes[0]).toMatchObject({
      kind: "record",
      operation: "payments.charge",
      errorCode: "handler-threw",
      reason: expect.stringContaining("may have happened"),
      count: 3,
    });
    expect(census.tenants).toContainEqual({ tenant, count: 5 });
    expect(census.ages.reduce((sum, n) => sum + n, 0)).toBe(census.count);
    expect(Date.parse(census.oldestAt ?? "")).toBeLessThanOrEqual(Date.parse(census.now));
  });

  test.each([
    ["an unknown filter", () => operator.records("unknown", { keys: "x" } as object)],
    ["a limit", () => operator.records("unknown", {}, { limit: 0 })],
    ["a place", () => operator.records("unknown", {}, { from: "1_x" })],
  ])("%s that is invalid throws a TypeError", async (_what, ask) => {
    await expect(ask()).rejects.toThrow(TypeError);
  });
});

describe("one record", () => {
  test("is found by id, downstream key and client's key, with what may be done", async () => {
    const { id, downstream } = await callInDoubt(place, keyOf("one"));
    const names = [
      id,
      downstream,
      { tenant: "account-1", operation: "payments.charge", key: "one" },
    ] as const;
    for (const name of names) {
      const found = await operator.inspect(name);
      expect(found).toMatchObject({ kind: "record", report: { id, state: "unknown" } });
    }
    const { report } = await seen(id);
    expect(report.choices.map(({ action }) => action)).toEqual([
      { kind: "settle", outcome: "call", call: "charged", downstreamKey: downstream },
      { kind: "settle", outcome: "not-executed", proof: "operator" },
      { kind: "settle", outcome: "not-executed", proof: "closed-downstream", downstreamKey: downstream },
      { kind: "settle", outcome: "completed" },
      { kind: "settle", outcome: "failed" },
    ]);
    expect(report.input).toEqual({ value: { amount: 500 } });
    expect(await operator.inspect("order-0")).toEqual({ kind: "not_found" });
  });

  test("is decoded with the service's codec, and unreadable with another", async () => {
    const store = memoryStore();
    const codecOf = (byte: number) =>
      encryptionCodec({ keys: { k1: new Uint8Array(32).fill(byte) }, current: "k1" });
    const latchkey = createLatchkey({ store, codec: codecOf(1) });
    const pay = latchkey.operation("pay", {
      execution: "lease",
      leaseEnd: "resume",
      version: "1",
      async run(input: object, attempt) {
        await attempt.phase("noted", async () => ({ noted: true }));
        return { status: 201, body: { input } };
      },
    });
    await latchkey.run(pay, { tenant: "t", key: "k", input: { card: "4242" } });
    const name = { tenant: "t", operation: "pay", key: "k" };
    const inspected = (codec: ReturnType<typeof codecOf>) =>
      createOperator({ latchkey: createLatchkey({ store, codec }) }).inspect(name);
    expect(await inspected(codecOf(1))).toMatchObject({
      report: {
        answer: { value: { status: 201, body: { input: { card: "4242" } } } },
        steps: [{ name: "noted", result: { value: { noted: true } } }],
      },
    });
    expect(await inspected(codecOf(2))).toMatchObject({
      report: {
        answer: { unreadable: expect.any(Number) },
        steps: [{ result: { unreadable: expect.any(Number) } }],
      },
    });
  });
});

describe("settling", () => {
  test("a call with its result: the rest runs, the audit row has the operator and reason; repeating changes nothing", async () => {
    const { id, downstream } = await callInDoubt(place, keyOf("settle-1"));
    const life = await seen(id);
    const outcome = {
      outcome: "call",
      call: "charged",
      downstreamKey: downstream,
      result: { id: "ch_1" },
    } as const;
    const settled = await operator.settle(life, outcome, ada);
    expect(settled).toMatchObject({
      kind: "settled",
      audit: { event: "settle_call", actor: "ada", proof: "operator", reason: ada.reason },
      record: { state: "retryable" },
      next: [expect.stringContaining("continues it after the last finished step")],
    });
    expect(await operator.settle(life, outcome, ada)).toEqual(settled);
    const { report } = await seen(id);
    expect(report.audit).toHaveLength(1);
    expect(report.steps.at(-1)).toMatchObject({
      name: "charged",
      state: "finished",
      result: { value: { id: "ch_1" } },
    });
  });

  test.each([
    ["completed", 201, "completed"],
    ["failed", 502, "failed"],
  ] as const)("as %s with an answer", async (outcome, status, state) => {
    const id = await bareDoubt(place, keyOf(`settle-${outcome}`));
    const answer = { status, body: { done: outcome } };
    await operator.settle(await seen(id), { outcome, answer }, ada);
    const { report } = await seen(id);
    expect(report).toMatchObject({ state, answer: { value: answer } });
  });

  test("as closed on the other side: the next send has another key", async () => {
    const { id, downstream } = await callInDoubt(place, keyOf("settle-closed"));
    const outcome = {
      outcome: "not-executed",
      proof: "closed-downstream",
      downstreamKey: downstream,
    } as const;
    expect(await operator.settle(await seen(id), outcome, ada)).toMatchObject({
      kind: "settled",
      audit: { proof: "closed-downstream", actor: "ada" },
    });
    const [, call] = (await seen(id)).report.steps;
    expect(call).toMatchObject({ state: "not_executed", call: { generation: 1 } });
    expect(call?.call?.downstreamKey).not.toBe(downstream);
  });

  test("two people at once: one settles, the other reads who was faster", async () => {
    const { id, downstream } = await callInDoubt(place, keyOf("settle-twice"));
    const life = await seen(id);
    const both = await Promise.all([
      operator.settle(life, notExecuted(downstream), ada),
      operator.settle(life, { outcome: "failed", answer: { status: 502 } }, bob),
    ]);
    expect(both.map(({ kind }) => kind).sort()).toEqual(["refused", "settled"]);
    const refused = both.find(({ kind }) => kind === "refused");
    expect(refused && refusalOf(refused)).toMatch(
      /^Not settled\. (?:ada|bob) was faster\. At \d\d:\d\d:\d\d (?:ada|bob) settled it: unknown → (?:failed|retryable)\./u,
    );
    expect((await seen(id)).report.audit).toHaveLength(1);
  });

  test("a settlement of an earlier doubt does not settle a later one", async () => {
    const { id, downstream } = await callInDoubt(place, keyOf("settle-again"));
    const life = await seen(id);
    await operator.settle(life, notExecuted(downstream), ada);
    await resumeIntoDoubt(place, keyOf("settle-again"));
    for (const by of [ada, bob]) {
      const refused = await operator.settle(life, notExecuted(downstream), by);
      expect(refusalOf(refused)).toContain("has become unknown again");
    }
    expect(await stateOf(place, keyOf("settle-again"))).toBe("unknown");
  });

  test("a record that is not unknown or gone, or another call, is refused with a reason", async () => {
    const running = await begin(place, keyOf("settle-running"));
    const life = { recordId: running.id, attempt: 1 };
    expect(refusalOf(await operator.settle(life, notExecuted(null), ada))).toContain(
      "Not settled. The record is now in progress.",
    );
    await endInDoubt(place, ownerOf(keyOf("settle-running"), running));
    const other = { outcome: "call", call: "paid", downstreamKey: "lk_other", result: 1 } as const;
    expect(refusalOf(await operator.settle(life, other, ada))).toContain("is no longer in doubt");
    const wrong = { outcome: "completed", answer: { status: 99 } } as const;
    expect(refusalOf(await operator.settle(life, wrong, ada))).toContain(
      "status must be between 200 and 599",
    );
    const none = { recordId: systemPorts.random.uuid(0), attempt: 1 };
    expect(refusalOf(await operator.settle(none, notExecuted(null), ada))).toContain("no longer exists");
    await expect(operator.settle(life, notExecuted(null), { operator: "ada", reason: " " })).rejects.toThrow(
      "reason must be a non-empty string",
    );
  });
});

describe("dead letters", () => {
  /** A service whose effect dies and whose inbox gives up at once. */
  function serviceWithDead() {
    const store = memoryStore();
    const latchkey = createLatchkey({ store });
    const receipt = latchkey.effect("receipt.send", {
      deduplication: "none",
      execute: async (_: unknown) => null,
    });
    const charge = latchkey.operation("charge", { execution: "transaction" });
    const world = { mended: false, published: [] as string[] };
    const inbox = createInbox(
      latchkey,
      latchkey.operation("ship"),
      { tenant: "shop", failuresMax: 1 },
      async () => {
        if (!world.mended) throw new Error("it does not work yet");
      },
    );
    const republish = ({ messageId }: { readonly messageId: string | null }) => {
      if (!world.mended) throw new Error("the broker cannot be reached");
      world.published.push(messageId ?? "");
    };
    const die = async () => {
      const { outbox } = store;
      const claimed =
        (await outbox?.claim([{ effect: "receipt.send", limit: 9 }], systemPorts.random.token(), 9_000)) ??
        [];
      const claims = claimed.map(({ id, fence }) => ({ id, fence }));
      await outbox?.start(claims, 9_000);
      await outbox?.end(
        claims.map((claim) => ({ ...claim, event: "die", errorCode: "call-in-doubt", returned: false })),
      );
    };
    const bury = async (key: string) => {
      await latchkey.run(charge, { tenant: "shop", key, input: null }, async ({ attempt, tx }) => {
        await tx.insert("charges", { key });
        attempt.enqueue(receipt, { to: key });
        return null;
      });
      await die();
    };
    return { latchkey, world, bury, die, inbox, operator: createOperator({ latchkey, republish }) };
  }

  test("effects: listed, counted with messages, redriven and discarded once", async () => {
    const { operator: here, bury, die, inbox } = serviceWithDead();
    await bury("r-1");
    await bury("r-2");
    await inbox.consume(message(1));
    const { items } = await here.deadEffects({ errorCode: "call-in-doubt" });
    expect(items).toHaveLength(2);
    const [first, second] = items;
    const census = await here.census("dead");
    expect(census.causes).toMatchObject([
      { kind: "effect", name: "receipt.send", errorCode: "call-in-doubt", count: 2 },
      { kind: "message", operation: "ship", errorCode: "failed", count: 1 },
    ]);
    const redrive = { decision: "redrive", doubt: "kept" } as const;
    expect(await here.decide(first?.death ?? "", redrive, ada)).toMatchObject({
      kind: "decided",
      what: "effect",
    });
    expect(await here.decide(first?.death ?? "", redrive, bob)).toMatchObject({
      kind: "refused",
      title: expect.stringContaining("no longer dead"),
    });
    await die();
    expect(await here.decide(first?.death ?? "", redrive, bob), "it has died again").toMatchObject({
      kind: "refused",
      title: expect.stringContaining("died again"),
    });
    expect(await here.decide(second?.death ?? "", { decision: "discard" }, ada)).toMatchObject({
      kind: "decided",
    });
    expect((await here.everyDead("effect")).items).toHaveLength(1);
    const report = await here.inspect({ tenant: "shop", operation: "charge", key: first?.key ?? "" });
    expect(report).toMatchObject({ report: { deadChoices: [{ choices: { length: 3 } }] } });
  });

  test("messages: inspected, published again, or the reason why not", async () => {
    const { operator: here, world, inbox, latchkey } = serviceWithDead();
    await inbox.consume(message(1));
    const [dead] = (await here.deadMessages()).items;
    const id = dead?.id ?? "";
    const redrive = { decision: "redrive", doubt: "kept" } as const;
    expect(await here.inspect(id)).toMatchObject({
      kind: "message",
      message: { reason: "failed" },
      payload: { value: { body: { order: 1 } } },
    });
    await expect(here.decide(id, redrive, ada)).rejects.toThrow("the broker cannot be reached");
    const elsewhere = createOperator({ latchkey });
    expect(elsewhere.abilities).toEqual({
      effects: true,
      messages: true,
      republish: false,
      auditLog: true,
      deleteTenant: true,
    });
    const [held] = (await elsewhere.deadMessages()).items;
    expect(await elsewhere.decide(held?.id ?? "", redrive, ada)).toMatchObject({
      kind: "refused",
      title: "Not published.",
    });
    world.mended = true;
    expect(await here.decide(held?.id ?? "", redrive, ada)).toMatchObject({
      kind: "decided",
      what: "message",
    });
    expect(world.published).toEqual(["order-1"]);
    await expect(here.decide("order-1", redrive, ada)).rejects.toThrow(TypeError);
  });
});

test("an input that its service's codec cannot read is reported as unreadable", async () => {
  await begin(place, keyOf("bytes"), new Uint8Array([255, 254]));
  const found = await operator.inspect({ tenant: "account-1", operation: "payments.charge", key: "bytes" });
  expect(found).toMatchObject({ report: { input: { unreadable: 2 } } });
  expect(bytes({})).toHaveLength(2);
});
