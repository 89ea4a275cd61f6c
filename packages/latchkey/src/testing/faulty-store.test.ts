import { describe, expect, test } from "vitest";
import { storeConformance } from "../../../latchkey-conformance/src/index.ts";
import {
  completion,
  defaultTerms,
  newId,
  newKey,
  newLife,
} from "../../../latchkey-conformance/src/store-conformance/arrange.ts";
import {
  deliveryCommit,
  deliveryRequest,
} from "../../../latchkey-conformance/src/store-conformance/deliver-arrange.ts";
import {
  callEnds,
  intentOf,
  ownerOf,
  phaseCommit,
  phaseRequest,
} from "../../../latchkey-conformance/src/store-conformance/journal-arrange.ts";
import { deadNote, newEffect } from "../../../latchkey-conformance/src/store-conformance/outbox-arrange.ts";
import {
  neverHappened,
  newNote,
} from "../../../latchkey-conformance/src/store-conformance/settlement-arrange.ts";
import {
  commitOf,
  isExclusive,
  requestFor,
} from "../../../latchkey-conformance/src/store-conformance/transactions-arrange.ts";
import { guardOf } from "../engine/record.ts";
import { StoreError } from "../errors.ts";
import { overviewOf } from "../execution/overview.ts";
import type { MemoryTransaction } from "../stores/memory.ts";
import { memoryStore } from "../stores/memory.ts";
import type { Store } from "../stores/store.ts";
import type { BatchWork, DeliveryWork, PhaseWork, TransactionWork } from "../stores/transactions.ts";
import { type Fault, type FaultPlan, faultyStore, type StoreCall } from "./index.ts";

const never = new Promise<void>(() => {});

/** The port named gets the fault, once; all other calls proceed. */
function once(port: StoreCall["port"], fault: Fault): FaultPlan {
  let done = false;
  return (call) => {
    if (done || call.port !== port) return "proceed";
    done = true;
    return fault;
  };
}

/** Whether `promise` settles before everything that can run has run. */
async function settles(promise: Promise<unknown>): Promise<boolean> {
  let settled = false;
  promise.then(
    () => {
      settled = true;
    },
    () => {
      settled = true;
    },
  );
  await new Promise((resolve) => setImmediate(resolve));
  return settled;
}

async function failure(promise: Promise<unknown>): Promise<StoreError> {
  const error = await promise.then(
    () => null,
    (reason: unknown) => reason,
  );
  if (!(error instanceof StoreError)) throw new TypeError("expected a StoreError");
  return error;
}

function transactionsOf<Tx>(store: Store<Tx>) {
  if (store.transactions === null) throw new TypeError("expected transactions");
  return store.transactions;
}

describe("a faulty store whose calls all proceed keeps the contract", () => {
  storeConformance<MemoryTransaction>({
    test,
    clock: "frozen",
    capabilities: memoryStore().capabilities,
    factory() {
      let now = Date.UTC(2026, 0, 1);
      const inner = memoryStore({ now: () => now });
      return {
        store: faultyStore(inner, () => "proceed").store,
        secondStore: faultyStore(inner, () => Promise.resolve<Fault>("proceed")).store,
        advance(milliseconds) {
          now += milliseconds;
        },
        business: {
          write: (tx, row) => tx.insert("rows", { row }),
          committedRows: async () => inner.rows("rows").map(({ row }) => String(row)),
        },
        close() {},
      };
    },
  });
});

describe("one call", () => {
  const setUp = (plan: FaultPlan) => {
    const inner = memoryStore();
    const key = newKey();
    const faulty = faultyStore(inner, plan);
    const create = () => faulty.store.create(newLife(key), null, defaultTerms);
    const exists = async () => (await inner.read(key)).record !== null;
    return { inner, key, ...faulty, create, exists };
  };

  test.each<readonly [Fault, string, boolean]>([
    ["not_sent", "not_sent", false],
    ["request_lost", "in_doubt", false],
    ["reply_lost", "in_doubt", true],
  ])("%s fails as %s; took effect: %s", async (fault, certainty, tookEffect) => {
    const { create, exists } = setUp(once("create", fault));
    expect((await failure(create())).certainty).toBe(certainty);
    expect(await exists()).toBe(tookEffect);
  });

  test.each<readonly [Fault, boolean]>([
    ["crash_before", false],
    ["crash_after", true],
  ])("%s gets no reply, nor any later call; took effect: %s", async (fault, tookEffect) => {
    const { create, exists, store, key } = setUp(once("create", fault));
    expect(await settles(create())).toBe(false);
    expect(await exists()).toBe(tookEffect);
    expect(await settles(store.read(key))).toBe(false);
  });

  test("parked before the effect", async () => {
    const plan = Promise.withResolvers<Fault>();
    const { create, exists } = setUp(() => plan.promise);
    const created = create();
    expect(await settles(created)).toBe(false);
    expect(await exists()).toBe(false);
    plan.resolve("proceed");
    expect(await created).not.toBeNull();
  });

  test("parked after the effect", async () => {
    const reply = Promise.withResolvers<void>();
    const { create, exists } = setUp(once("create", { kind: "reply", until: reply.promise }));
    const created = create();
    expect(await settles(created)).toBe(false);
    expect(await exists()).toBe(true);
    reply.resolve();
    expect(await created).not.toBeNull();
  });

  test("late: in doubt at once, the effect comes afterwards", async () => {
    const arrival = Promise.withResolvers<void>();
    const { create, exists } = setUp(once("create", { kind: "late", until: arrival.promise }));
    expect((await failure(create())).certainty).toBe("in_doubt");
    expect(await exists()).toBe(false);
    arrival.resolve();
    await settles(never);
    expect(await exists()).toBe(true);
  });

  test("a refused effect whose reply is lost is in doubt like any other", async () => {
    const { inner, key, store } = setUp(once("end", "reply_lost"));
    const life = newLife(key);
    await inner.create(life, null, defaultTerms);
    const end = store.end(key, life.id, { attempt: 9, token: "x" }, completion());
    expect((await failure(end)).certainty).toBe("in_doubt");
  });

  test("calls are numbered and named, and their keys recorded", async () => {
    const calls: StoreCall[] = [];
    const { create, store, key } = setUp((call) => {
      calls.push(call);
      return "proceed";
    });
    await create();
    await store.read(key);
    await store.clean(1);
    expect(calls.map(({ number, port }) => [number, port])).toEqual([
      [1, "create"],
      [2, "read"],
      [3, "clean"],
    ]);
    expect(calls.map((call) => call.key?.key ?? null)).toEqual([key.key, key.key, null]);
  });

  test("a process killed while its call is parked gets no reply, and nothing happens", async () => {
    const plan = Promise.withResolvers<Fault>();
    const { create, exists, kill } = setUp(() => plan.promise);
    const created = create();
    kill();
    plan.resolve("proceed");
    expect(await settles(created)).toBe(false);
    expect(await exists()).toBe(false);
  });
});

describe("a transaction", () => {
  const setUp = (plan: FaultPlan) => {
    const inner = memoryStore();
    const key = newKey();
    const { store, kill } = faultyStore(inner, plan);
    let runs = 0;
    const commit = commitOf(key);
    const run = (work = async (): Promise<TransactionWork<string>> => commit) =>
      transactionsOf(store).run(requestFor(key), async (open) => {
        runs += 1;
        await open.tx.insert("rows", { row: 1 });
        return work();
      });
    const left = async () => ({
      rows: inner.rows("rows").length,
      state: (await inner.read(key)).record?.state ?? null,
      free: await isExclusive(transactionsOf(inner), key),
    });
    return { inner, key, store, kill, run, commit, left, runs: () => runs };
  };
  const nothing = { rows: 0, state: null, free: true };
  const everything = { rows: 1, state: "completed", free: true };

  test.each<readonly [Fault, string]>([
    ["not_sent", "not_sent"],
    ["request_lost", "in_doubt"],
    ["reply_lost", "in_doubt"],
  ])("that cannot open (%s) fails as %s, and no work runs", async (fault, certainty) => {
    const { run, runs, left } = setUp(once("open", fault));
    expect((await failure(run())).certainty).toBe(certainty);
    expect(runs()).toBe(0);
    await settles(never);
    expect(await left()).toEqual(nothing);
  });

  test("that opened unheard holds its key until the other side notices", async () => {
    const noticed = Promise.withResolvers<void>();
    const { run, left } = setUp(once("open", { kind: "late", until: noticed.promise }));
    await failure(run());
    expect((await left()).free).toBe(false);
    noticed.resolve();
    await settles(never);
    expect(await left()).toEqual(nothing);
  });

  test.each<readonly [Fault, string, object]>([
    ["proceed", "committed", everything],
    ["not_sent", "refused", nothing],
    ["request_lost", "in_doubt", nothing],
    ["reply_lost", "in_doubt", everything],
  ])("whose COMMIT meets %s is %s", async (fault, kind, state) => {
    const { run, left } = setUp(once("commit", fault));
    expect((await run()).kind).toBe(kind);
    await settles(never);
    expect(await left()).toEqual(state);
  });

  test("whose COMMIT comes late is in doubt, and can still be resolved", async () => {
    const arrival = Promise.withResolvers<void>();
    const { run, left, commit, inner, key } = setUp(once("commit", { kind: "late", until: arrival.promise }));
    expect((await run()).kind).toBe("in_doubt");
    expect(await left()).toEqual({ ...nothing, free: false });
    const { id, fence } = commit.life;
    const resolved = transactionsOf(inner).resolve(key, id, fence, 60_000);
    expect(await settles(resolved)).toBe(false);
    arrival.resolve();
    expect(await resolved).toBe("committed");
    expect(await left()).toEqual(everything);
  });

  test("whose COMMIT is answered late", async () => {
    const reply = Promise.withResolvers<void>();
    const { run, left } = setUp(once("commit", { kind: "reply", until: reply.promise }));
    const outcome = run();
    expect(await settles(outcome)).toBe(false);
    expect(await left()).toEqual(everything);
    reply.resolve();
    expect((await outcome).kind).toBe("committed");
  });

  test.each<readonly [Fault, object]>([
    ["crash_before", nothing],
    ["crash_after", everything],
  ])("whose process dies at the COMMIT (%s) returns nothing", async (fault, state) => {
    const { run, left } = setUp(once("commit", fault));
    expect(await settles(run())).toBe(false);
    expect(await left()).toEqual(state);
  });

  test("whose process is killed inside the handler is ended by the store", async () => {
    const { run, left, kill } = setUp(() => "proceed");
    const outcome = run(() => never.then(() => commitOf(newKey())));
    expect(await settles(outcome)).toBe(false);
    expect((await left()).free).toBe(false);
    kill();
    expect(await settles(outcome)).toBe(false);
    expect(await left()).toEqual(nothing);
  });

  test.each<Fault>(["not_sent", "request_lost", "reply_lost"])(
    "that rolls back stays so (%s)",
    async (fault) => {
      const { run, left } = setUp(once("rollback", fault));
      expect((await run(async () => ({ end: "rollback", value: "" }))).kind).toBe("rolled_back");
      await settles(never);
      expect(await left()).toEqual(nothing);
    },
  );

  test("whose handler throws comes to a rollback of its own", async () => {
    const ports: string[] = [];
    const { run, left } = setUp(({ port }) => {
      ports.push(port);
      return "proceed";
    });
    const error = new Error("the handler failed");
    await expect(run(() => Promise.reject(error))).rejects.toBe(error);
    expect(ports).toEqual(["open", "rollback"]);
    expect(await left()).toEqual(nothing);
  });
});

describe("a phase", () => {
  const setUp = async (plan: FaultPlan) => {
    const inner = memoryStore();
    const { store, kill } = faultyStore(inner, plan);
    const record = await inner.create(newLife(newKey()), null, defaultTerms);
    if (record === null) throw new TypeError("expected a record");
    const owner = ownerOf(record);
    const run = (work = async (): Promise<PhaseWork<string>> => phaseCommit()) =>
      transactionsOf(store).phase(phaseRequest(owner), async (open) => {
        await open.tx.insert("rows", { row: 1 });
        return work();
      });
    const left = async () => {
      const journal = await inner.journal.read(owner.key, owner.id);
      return { rows: inner.rows("rows").length, steps: journal?.steps.length ?? null };
    };
    return { inner, owner, kill, run, left };
  };
  const nothing = { rows: 0, steps: 0 };
  const everything = { rows: 1, steps: 1 };

  test.each<readonly [Fault, string]>([
    ["not_sent", "not_sent"],
    ["request_lost", "in_doubt"],
    ["reply_lost", "in_doubt"],
  ])("that cannot open (%s) fails as %s", async (fault, certainty) => {
    const { run, left } = await setUp(once("openPhase", fault));
    expect((await failure(run())).certainty).toBe(certainty);
    await settles(never);
    expect(await left()).toEqual(nothing);
  });

  test.each<readonly [Fault, string, object]>([
    ["proceed", "committed", everything],
    ["not_sent", "refused", nothing],
    ["request_lost", "in_doubt", nothing],
    ["reply_lost", "in_doubt", everything],
  ])("whose COMMIT meets %s is %s", async (fault, kind, state) => {
    const { run, left } = await setUp(once("commitPhase", fault));
    expect((await run()).kind).toBe(kind);
    await settles(never);
    expect(await left()).toEqual(state);
  });

  test("whose COMMIT comes late is in doubt, and never comes after a new token", async () => {
    const arrival = Promise.withResolvers<void>();
    const { run, left, inner, owner } = await setUp(
      once("commitPhase", { kind: "late", until: arrival.promise }),
    );
    expect((await run()).kind).toBe("in_doubt");
    const refenced = await inner.journal.refence(owner, "e".repeat(32), 60_000, 60_000);
    expect(refenced?.journal.steps).toEqual([]);
    arrival.resolve();
    await settles(never);
    expect(await left()).toEqual(nothing);
  });

  test.each<readonly [Fault, object]>([
    ["crash_before", nothing],
    ["crash_after", everything],
  ])("whose process dies at the COMMIT (%s) returns nothing", async (fault, state) => {
    const { run, left } = await setUp(once("commitPhase", fault));
    expect(await settles(run())).toBe(false);
    expect(await left()).toEqual(state);
  });

  test("whose process is killed inside the work leaves nothing", async () => {
    const { run, left, kill } = await setUp(() => "proceed");
    const outcome = run(() => never.then(() => phaseCommit()));
    await settles(outcome);
    kill();
    expect(await settles(outcome)).toBe(false);
    expect(await left()).toEqual(nothing);
  });

  test("whose work throws comes to a rollback of its own", async () => {
    const ports: string[] = [];
    const { run, left } = await setUp(({ port }) => {
      ports.push(port);
      return "proceed";
    });
    const error = new Error("the work failed");
    await expect(run(() => Promise.reject(error))).rejects.toBe(error);
    expect(ports).toEqual(["openPhase", "rollbackPhase"]);
    expect(await left()).toEqual(nothing);
  });
});

describe("a delivery", () => {
  const setUp = async (plan: FaultPlan) => {
    const inner = memoryStore();
    const key = newKey();
    const effect = newEffect();
    const { store, kill } = faultyStore(inner, plan);
    await transactionsOf(inner).run(requestFor(key), async () => commitOf(key, { effects: [effect] }));
    const [claimed] = (await inner.outbox?.claim([{ effect: effect.effect, limit: 1 }], "t", 60_000)) ?? [];
    if (claimed === undefined) throw new TypeError("expected an effect");
    const run = (work = async (): Promise<DeliveryWork<string>> => deliveryCommit()) =>
      transactionsOf(store).deliver(deliveryRequest(claimed), async (open) => {
        await open.tx.insert("rows", { row: 1 });
        return work();
      });
    const left = async () => {
      const [there] = (await inner.outbox?.ofRecord(claimed.recordId)) ?? [];
      return { rows: inner.rows("rows").length, state: there?.state };
    };
    return { run, left, kill };
  };
  const nothing = { rows: 0, state: "claimed" };
  const everything = { rows: 1, state: "delivered" };

  test.each<readonly [Fault, string]>([
    ["not_sent", "not_sent"],
    ["request_lost", "in_doubt"],
    ["reply_lost", "in_doubt"],
  ])("that cannot open (%s) fails as %s", async (fault, certainty) => {
    const { run, left } = await setUp(once("openDelivery", fault));
    expect((await failure(run())).certainty).toBe(certainty);
    await settles(never);
    expect(await left()).toEqual(nothing);
  });

  test.each<readonly [Fault, string, object]>([
    ["proceed", "committed", everything],
    ["not_sent", "refused", nothing],
    ["request_lost", "in_doubt", nothing],
    ["reply_lost", "in_doubt", everything],
  ])("whose COMMIT meets %s is %s", async (fault, kind, state) => {
    const { run, left } = await setUp(once("commitDelivery", fault));
    expect((await run()).kind).toBe(kind);
    await settles(never);
    expect(await left()).toEqual(state);
  });

  test.each<readonly [Fault, object]>([
    ["crash_before", nothing],
    ["crash_after", everything],
  ])("whose process dies at the COMMIT (%s) returns nothing", async (fault, state) => {
    const { run, left } = await setUp(once("commitDelivery", fault));
    expect(await settles(run())).toBe(false);
    expect(await left()).toEqual(state);
  });

  test("whose process is killed inside the work leaves nothing", async () => {
    const { run, left, kill } = await setUp(() => "proceed");
    const outcome = run(() => never.then(() => deliveryCommit()));
    await settles(outcome);
    kill();
    expect(await settles(outcome)).toBe(false);
    expect(await left()).toEqual(nothing);
  });

  test("whose work throws comes to a rollback of its own", async () => {
    const ports: string[] = [];
    const { run } = await setUp(({ port }) => {
      ports.push(port);
      return "proceed";
    });
    const error = new Error("the work failed");
    await expect(run(() => Promise.reject(error))).rejects.toBe(error);
    expect(ports).toEqual(["openDelivery", "rollbackDelivery"]);
  });
});

describe("a batch", () => {
  const setUp = async (plan: FaultPlan) => {
    const inner = memoryStore();
    const keys = [newKey(), newKey()];
    const { store, kill } = faultyStore(inner, plan);
    const { runBatch } = transactionsOf(store);
    if (runBatch === undefined) throw new TypeError("expected batches");
    const { isolation, idleLimitMs } = requestFor(newKey());
    const commit = async (): Promise<BatchWork<string>> => ({
      end: "commit",
      value: "value",
      records: keys.map((key) => commitOf(key)),
    });
    const run = (work = commit) =>
      runBatch({ keys, isolation, idleLimitMs }, async (open) => {
        for (const row of keys.keys()) await open.part().tx.insert("rows", { row });
        return work();
      });
    const left = async () => {
      const records = await Promise.all(keys.map((key) => inner.read(key)));
      return { rows: inner.rows("rows").length, states: records.map(({ record }) => record?.state) };
    };
    return { run, left, kill, commit };
  };
  const nothing = { rows: 0, states: [undefined, undefined] };
  const everything = { rows: 2, states: ["completed", "completed"] };

  test.each<readonly [Fault, string]>([
    ["not_sent", "not_sent"],
    ["request_lost", "in_doubt"],
    ["reply_lost", "in_doubt"],
  ])("that cannot open (%s) fails as %s", async (fault, certainty) => {
    const { run, left } = await setUp(once("openBatch", fault));
    expect((await failure(run())).certainty).toBe(certainty);
    await settles(never);
    expect(await left()).toEqual(nothing);
  });

  test.each<readonly [Fault, string, object]>([
    ["proceed", "committed", everything],
    ["not_sent", "refused", nothing],
    ["request_lost", "in_doubt", nothing],
    ["reply_lost", "in_doubt", everything],
  ])("whose COMMIT meets %s is %s", async (fault, kind, state) => {
    const { run, left } = await setUp(once("commitBatch", fault));
    expect(await run()).toMatchObject({ kind, value: "value" });
    await settles(never);
    expect(await left()).toEqual(state);
  });

  test.each<readonly [Fault, object]>([
    ["crash_before", nothing],
    ["crash_after", everything],
  ])("whose process dies at the COMMIT (%s) returns nothing", async (fault, state) => {
    const { run, left } = await setUp(once("commitBatch", fault));
    expect(await settles(run())).toBe(false);
    expect(await left()).toEqual(state);
  });

  test("whose process is killed inside the work leaves nothing", async () => {
    const { run, left, kill, commit } = await setUp(() => "proceed");
    const outcome = run(() => never.then(commit));
    await settles(outcome);
    kill();
    expect(await settles(outcome)).toBe(false);
    expect(await left()).toEqual(nothing);
  });

  test("whose work throws comes to a rollback of its own", async () => {
    const ports: string[] = [];
    const { run, left } = await setUp(({ port }) => {
      ports.push(port);
      return "proceed";
    });
    const error = new Error("the work failed");
    await expect(run(() => Promise.reject(error))).rejects.toBe(error);
    expect(ports).toEqual(["openBatch", "rollbackBatch"]);
    expect(await left()).toEqual(nothing);
  });
});

test("outboxes, waiting work, ids and hints are one point each, under names of their own", async () => {
  const seen: string[] = [];
  const { store } = faultyStore(memoryStore(), ({ port }) => {
    seen.push(port);
    return "proceed";
  });
  const { outbox, hints } = store;
  if (outbox === null || hints === null) throw new TypeError("expected an outbox and hints");
  await store.readById("t", newId());
  await store.claimPending([]);
  await outbox.claim([], "t", 1);
  await outbox.start([], 1);
  await outbox.end([]);
  await outbox.rescue(1);
  await outbox.list({ state: "dead", effect: null, tenant: null, limit: 1, after: null });
  await outbox.ofRecord(newId());
  await outbox.byDownstreamKey?.([]);
  await outbox.finished?.({ effect: "e", from: 0, to: 1, limit: 1, after: null });
  await outbox.confirm(
    { id: newId(), generation: 0, result: new Uint8Array() },
    { ...deadNote(), proof: "webhook" },
  );
  await outbox.decide(newId(), { event: "redrive", attempt: null, doubt: "kept" }, deadNote());
  const received = Promise.withResolvers<void>();
  const stop = await hints.listen(() => received.resolve());
  hints.send("effects");
  await received.promise;
  await stop();
  expect(seen).toEqual([
    "readById",
    "claimPending",
    "claimEffects",
    "startEffects",
    "endEffects",
    "rescueEffects",
    "listEffects",
    "effectsOfRecord",
    "effectsByKey",
    "finishedEffects",
    "confirmEffect",
    "decideEffect",
    "listenToHints",
    "sendHint",
    "receiveHint",
  ]);
});

test.each<readonly ["sendHint" | "receiveHint", Fault]>([
  ["sendHint", "not_sent"],
  ["sendHint", "request_lost"],
  ["receiveHint", "request_lost"],
])("a hint that is lost (%s, %s) fails nowhere", async (port, fault) => {
  const { hints } = faultyStore(memoryStore(), once(port, fault)).store;
  const received: string[] = [];
  await hints?.listen((hint) => received.push(hint));
  hints?.send("effects");
  await settles(never);
  expect(received).toEqual([]);
  hints?.send("pending");
  await settles(never);
  expect(received).toEqual(["pending"]);
});

test("journals and settlements are one point each, under names of their own", async () => {
  const seen: (readonly [port: string, key: string | null])[] = [];
  const { store } = faultyStore(memoryStore(), ({ port, key }) => {
    seen.push([port, key?.key ?? null]);
    return "proceed";
  });
  const { journal, settlement } = store;
  const life = newLife(newKey());
  const { key: k } = life;
  const owner = ownerOf(life);
  const guard = { id: life.id, state: "unknown", fence: life.fence } as const;
  await journal.read(owner.key, owner.id);
  await journal.startCall(owner, intentOf());
  await journal.endCall(owner, { name: "charge", generation: 0 }, { event: "not_executed" });
  await journal.refence(owner, "e".repeat(32), 1_000, 1_000);
  await journal.callsByDownstreamKey([]);
  await journal.finishedCalls({ effect: "e", from: 0, to: 1, limit: 1, after: null });
  await settlement.settle(owner.key, guard, neverHappened, newNote());
  await settlement.claimUnknowns([], 1, 1);
  await settlement.postpone(owner.key, guard, null);
  await settlement.resumable([], 1);
  await settlement.list({ state: "unknown", tenant: null, operation: null, limit: 1, after: null });
  await settlement.audit(owner.key);
  expect(seen).toEqual([
    ["readJournal", k],
    ["startCall", k],
    ["endCall", k],
    ["refence", k],
    ["callsByDownstreamKey", null],
    ["finishedCalls", null],
    ["settle", k],
    ["claimUnknowns", null],
    ["postpone", k],
    ["resumable", null],
    ["listRecords", null],
    ["readAudit", k],
  ]);
});

test("what a store may have beside is there, one point for each call, and absent where the store lacks it", async () => {
  const seen: string[] = [];
  const plan: FaultPlan = ({ port }) => {
    seen.push(port);
    return "proceed";
  };
  let now = Date.UTC(2026, 0, 1);
  const { rows: _rows, ...memory } = memoryStore({ now: () => now });
  const whole = {
    ...memory,
    ownCircuits: true,
    leasesRefused: "is refused here",
    finished: { look: async () => null },
    overview: async () => overviewOf(memory, 1),
    examine: async () => [],
    close: async () => {},
    outbox: memory.outbox && { ...memory.outbox, partOf: () => 0 },
  };
  const { store } = faultyStore(whole, plan);
  const life = newLife(newKey(), { summary: new Uint8Array([7]) });
  const record = await memory.create(life, null, defaultTerms);
  if (record === null) throw new TypeError("expected a record");
  expect(await store.summaries?.of(life, life.id)).toEqual(new Uint8Array([7]));
  const given = { settlement: neverHappened, note: newNote(), attempt: 1, call: null } as const;
  expect(await store.early?.keep(life, guardOf(record), given)).toBe(true);
  expect(await store.early?.of(life, life.id)).toHaveLength(1);
  expect(await store.early?.due(1)).toEqual([]);
  await store.archival?.clean(1);
  expect(await store.archival?.due(1)).toEqual([]);
  expect(await store.archival?.forget([])).toBe(0);
  await store.tenantData?.note("t", { id: newId(), actor: "ada", reason: "over" });
  await store.tenantData?.sweep({ tenant: "t", part: "records", after: null, limit: 1, remove: null });
  expect(await store.overview?.(1)).toMatchObject({ records: { inProgress: { count: 1 } } });
  expect(await store.examine?.({} as never)).toEqual([]);
  now += 2;
  expect(await store.cleanAudit?.(1, 1), "the note's").toBe(1);
  expect(await store.listAudit?.({ tenant: null, limit: 1, before: null })).toEqual([]);
  expect(seen).toEqual([
    "readSummary",
    "keepEarly",
    "readEarly",
    "dueEarly",
    "cleanForArchive",
    "dueForArchive",
    "forgetArchived",
    "noteTenant",
    "sweepTenant",
    "overview",
    "examine",
    "cleanAudit",
    "listAudit",
  ]);
  const missing = (one: Store<MemoryTransaction>, other: Store<MemoryTransaction>) =>
    [one, one.outbox, one.transactions].flatMap((part, at) => {
      const theirs = [other, other.outbox, other.transactions][at] ?? {};
      return Object.keys(part ?? {}).filter((name) => !(name in theirs));
    });
  expect(missing(whole, store)).toEqual([]);
  expect(missing(store, whole), "the faulty one invents nothing").toEqual([]);
  const { early, archival, tenantData, summaries, cleanAudit, listAudit, ...bare } = memory;
  expect(missing(faultyStore(bare, plan).store, bare)).toEqual([]);
});

test("a call's lost reply is in doubt, and repeating it is harmless", async () => {
  const inner = memoryStore();
  const record = await inner.create(newLife(newKey()), null, defaultTerms);
  if (record === null) throw new TypeError("expected a record");
  const owner = ownerOf(record);
  const { store } = faultyStore(inner, once("endCall", "reply_lost"));
  await store.journal.startCall(owner, intentOf());
  const end = () => store.journal.endCall(owner, { name: "charge", generation: 0 }, callEnds.finish);
  expect((await failure(end())).certainty).toBe("in_doubt");
  expect(await end()).toBe(true);
});
