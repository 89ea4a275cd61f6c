import { describe, expect, test } from "vitest";
import { manualPorts } from "../../../../../test/support/manual-ports.ts";
import { StoreError } from "../../errors.ts";
import { createLatchkey, type LatchkeyOptions } from "../../latchkey.ts";
import type { OperationOptions } from "../../operations/operation.ts";
import { type MemoryTransaction, memoryStore } from "../../stores/memory.ts";
import type { Store } from "../../stores/store.ts";
import type { LatchkeyEvent } from "../../telemetry/events.ts";
import type { Fault } from "../../testing/faulty-store/fault.ts";
import { faultyStore } from "../../testing/faulty-store.ts";
import { overviewOf } from "../overview.ts";
import { createBreaker, guardedStore } from "./guarded-store.ts";
import { isStoreFailure } from "./store-failure.ts";

type Options = Partial<LatchkeyOptions<MemoryTransaction>>;

function setUp(execution: "lease" | "transaction", options: Options = {}, more: object = {}) {
  const ports = manualPorts();
  const net: { fault: Fault | Promise<Fault>; calls: number } = { fault: "proceed", calls: 0 };
  const { store } = faultyStore(memoryStore({ ports }), ({ port }) => {
    if (port === "read" || port === "open") net.calls += 1;
    return net.fault;
  });
  const events: string[] = [];
  const latchkey = createLatchkey<MemoryTransaction>({
    store,
    ports,
    circuitBreaker: { failureThreshold: 2, openMs: 1_000 },
    onEvent: ({ type }: LatchkeyEvent) => events.push(type),
    ...options,
  });
  const operation = latchkey.operation("op", {
    execution,
    writes: "none",
    ...more,
  } as OperationOptions<"lease">);
  let starts = 0;
  let keys = 0;
  const run = (work: () => Promise<unknown> = async () => null) =>
    latchkey.run(operation, { tenant: "t", key: `k${++keys}`, input: null }, () => {
      starts += 1;
      return work();
    });
  return { ...ports, net, run, latchkey, events, starts: () => starts };
}

describe.each(["lease", "transaction"] as const)("with a store that cannot be reached (%s)", (execution) => {
  async function opened() {
    const arranged = setUp(execution);
    arranged.net.fault = "not_sent";
    for (let time = 0; time < 2; time++) await expect(arranged.run()).rejects.toThrow(StoreError);
    arranged.net.calls = 0;
    return arranged;
  }

  test("new requests are refused without calling it, and nothing runs", async () => {
    const { run, net, starts, events } = await opened();
    net.fault = "proceed";
    await expect(run()).rejects.toMatchObject({ code: "store-unavailable", certainty: "not_sent" });
    expect([net.calls, starts(), events]).toEqual([0, 0, ["circuit_opened"]]);
  });

  test("one request finds that it is back", async () => {
    const { run, net, clock, events } = await opened();
    await clock.advance(1_000);
    let answer = (_fault: Fault) => {};
    net.fault = new Promise((resolve) => {
      answer = resolve;
    });
    const probe = run();
    await expect(run()).rejects.toThrow(StoreError);
    expect(net.calls).toBe(1);
    answer("proceed");
    expect((await probe).kind).toBe("executed");
    expect((await run()).kind).toBe("executed");
    expect(events.filter((type) => type.startsWith("circuit"))).toEqual(["circuit_opened", "circuit_closed"]);
  });

  test("or that it is not", async () => {
    const { run, net, clock, events } = await opened();
    await clock.advance(1_000);
    await expect(run()).rejects.toThrow(StoreError);
    await expect(run()).rejects.toThrow(StoreError);
    expect([net.calls, events]).toEqual([1, ["circuit_opened"]]);
  });

  test("while a probe's own work runs, others are served", async () => {
    const { run, net, clock } = await opened();
    await clock.advance(1_000);
    net.fault = "proceed";
    const inner: unknown[] = [];
    await run(async () => inner.push((await run()).kind));
    expect(inner).toEqual(["executed"]);
  });

  test("when off, the store is always called", async () => {
    const { run, net } = setUp(execution, { circuitBreaker: false });
    net.fault = "not_sent";
    for (let time = 0; time < 10; time++) await expect(run()).rejects.toThrow(StoreError);
    expect(net.calls).toBe(10);
  });
});

test("an attempt that has begun still calls the store, and ends", async () => {
  const { run, net, starts, events } = setUp("lease");
  const result = await run(async () => {
    net.fault = "not_sent";
    for (let time = 0; time < 3; time++) await expect(run()).rejects.toThrow(StoreError);
    net.fault = "proceed";
  });
  expect([result.kind, starts()]).toEqual(["executed", 1]);
  expect(events).toEqual(["reserved", "circuit_opened", "executed"]);
});

test("a refused call is not an outage", () => {
  const withState = (code: string) =>
    new StoreError("rolled_back", { cause: Object.assign(new Error(), { code }) });
  expect(isStoreFailure(withState("55P03"))).toBe(false);
  expect(isStoreFailure(withState("57014"))).toBe(false);
  expect(isStoreFailure(new StoreError("rolled_back"))).toBe(false);
  expect(isStoreFailure(new Error("no"))).toBe(false);
  expect(isStoreFailure(withState("57P01"))).toBe(true);
  expect(isStoreFailure(new StoreError("rolled_back", { cause: new Error("gone") }))).toBe(true);
  expect(isStoreFailure(new StoreError("in_doubt"))).toBe(true);
});

describe("an error that several callers get", () => {
  const unreachable = () => new StoreError("not_sent");

  function watching() {
    const { clock } = manualPorts();
    const types: string[] = [];
    const settings = { failureThreshold: 2, openMs: 1_000 };
    const { watch } = createBreaker("memory", settings, clock, ({ type }) => types.push(type));
    const fail = async (...errors: readonly StoreError[]) => {
      const calls = errors.map((error) => watch(() => Promise.reject(error)));
      for (const { status } of await Promise.allSettled(calls)) expect(status).toBe("rejected");
    };
    return { fail, types, clock };
  }

  test("counts once", async () => {
    const { fail, types } = watching();
    const [one, other] = [unreachable(), unreachable()];
    await fail(one, one, one);
    await fail(one);
    expect(types).toEqual([]);
    await fail(other, other);
    expect(types).toEqual(["circuit_opened"]);
  });

  test("counts once, too, where a store wraps it for each caller", async () => {
    const { fail, types } = watching();
    const one = unreachable();
    const wrapped = () => new StoreError("not_sent", { cause: one });
    await fail(wrapped(), one, wrapped(), new StoreError("not_sent", { cause: wrapped() }));
    expect(types).toEqual([]);
    await fail(unreachable());
    expect(types).toEqual(["circuit_opened"]);
  });

  test("is not the cause that separate failures of the store share", async () => {
    const { fail, types } = watching();
    const cause = new Error("The pool gave out a connection with an open transaction");
    await fail(new StoreError("rolled_back", { cause }), new StoreError("rolled_back", { cause }));
    expect(types).toEqual(["circuit_opened"]);
  });

  test("counts for the caller whose call began after the circuit had closed", async () => {
    const { clock } = manualPorts();
    const types: string[] = [];
    const settings = { failureThreshold: 1, openMs: 1_000 };
    const { watch, guard } = createBreaker("memory", settings, clock, ({ type }) => types.push(type));
    const error = unreachable();
    const early = Promise.withResolvers<never>();
    const before = watch(() => early.promise);
    await expect(watch(() => Promise.reject(unreachable()))).rejects.toThrow(StoreError);
    await clock.advance(1_000);
    await guard(() => watch(async () => {}));
    await clock.advance(1);
    early.reject(error);
    await expect(before).rejects.toBe(error);
    expect(types).toEqual(["circuit_opened", "circuit_closed"]);
    await expect(watch(() => Promise.reject(error))).rejects.toBe(error);
    expect(types).toEqual(["circuit_opened", "circuit_closed", "circuit_opened"]);
  });
});

describe("an operation that runs unprotected", () => {
  const option = { onStoreFailure: "run-unprotected" };

  test("does so only when the store fails before its work, and reports it", async () => {
    const { run, net, starts, events } = setUp("lease", {}, option);
    expect((await run()).kind).toBe("executed");
    net.fault = "not_sent";
    for (let time = 0; time < 4; time++) expect((await run()).kind).toBe("executed");
    expect(starts()).toBe(5);
    expect(events.filter((type) => type === "ran_unprotected")).toHaveLength(4);
    expect(net.calls).toBe(3);
  });

  test("does not run again when its work throws", async () => {
    const { run, net, starts } = setUp("lease", {}, option);
    net.fault = "not_sent";
    await expect(run(() => Promise.reject(new StoreError("not_sent")))).rejects.toThrow(StoreError);
    net.fault = "proceed";
    await expect(run(() => Promise.reject(new StoreError("not_sent")))).rejects.toThrow(StoreError);
    expect(starts()).toBe(2);
  });

  test("cannot use execution transaction", () => {
    expect(() => setUp("transaction", {}, option)).toThrow(/onStoreFailure/u);
    expect(() => setUp("lease", {}, { onStoreFailure: "maybe" })).toThrow(/onStoreFailure/u);
  });
});

describe("what a breaker counts", () => {
  const dead = "10000000-0000-7000-8000-000000000000";
  const key = { tenant: "t", scope: "op", key: "k" };
  const owner = { key, id: dead, fence: { attempt: 1, token: "0".repeat(32) } };
  const guard = { id: dead, state: "unknown", fence: owner.fence } as const;
  const intent = {
    ...{ name: "charge", position: 0, version: "1", effect: "e", generation: 0, downstreamKey: "d" },
    input: new Uint8Array(),
  };
  const note = { id: dead, actor: "a", proof: "operator", reason: null };
  const neverHappened = {
    ...({ event: "settle_not_executed", calls: "never-happened" } as const),
    reopen: null,
    resumeAfterMs: null,
  };
  const filter = { state: "unknown", tenant: null, operation: null, limit: 1, after: null } as const;

  const calls: Readonly<Record<string, (store: Store<MemoryTransaction>) => Promise<unknown>>> = {
    "journal.read": ({ journal }) => journal.read(key, dead),
    startCall: ({ journal }) => journal.startCall(owner, intent),
    endCall: ({ journal }) => journal.endCall(owner, intent, { event: "not_executed" }),
    callsByDownstreamKey: ({ journal }) => journal.callsByDownstreamKey([]),
    finishedCalls: ({ journal }) =>
      journal.finishedCalls({ effect: "e", from: 0, to: 1, limit: 1, after: null }),
    settle: ({ settlement }) => settlement.settle(key, guard, neverHappened, note),
    claimUnknowns: ({ settlement }) => settlement.claimUnknowns([], 1, 1),
    postpone: ({ settlement }) => settlement.postpone(key, guard, null),
    resumable: ({ settlement }) => settlement.resumable([], 1),
    list: ({ settlement }) => settlement.list(filter),
    audit: ({ settlement }) => settlement.audit(key),
    readById: (store) => store.readById("t", dead),
    claimPending: (store) => store.claimPending([]),
    claimEffects: async ({ outbox }) => outbox?.claim([], owner.fence.token, 1),
    startEffects: async ({ outbox }) => outbox?.start([], 1),
    endEffects: async ({ outbox }) => outbox?.end([]),
    rescueEffects: async ({ outbox }) => outbox?.rescue(1),
    listEffects: async ({ outbox }) =>
      outbox?.list({ state: "dead", effect: null, tenant: null, limit: 1, after: null }),
    effectsByKey: async ({ outbox }) => outbox?.byDownstreamKey?.([]),
    finishedEffects: async ({ outbox }) =>
      outbox?.finished?.({ effect: "e", from: 0, to: 1, limit: 1, after: null }),
    effectsOfRecord: async ({ outbox }) => outbox?.ofRecord(dead),
    decideEffect: async ({ outbox }) =>
      outbox?.decide(
        dead,
        { event: "discard", attempt: null, keepMs: 1 },
        { id: dead, actor: "a", reason: null },
      ),
    deliver: async ({ transactions }) =>
      transactions?.deliver({ claim: owner, tenant: "t", idleLimitMs: 1_000, keepMs: 1 }, async () => ({
        end: "rollback",
        value: null,
      })),
    phase: async ({ transactions }) =>
      transactions?.phase({ owner, isolation: null, idleLimitMs: 1_000 }, async () => ({
        end: "rollback",
        value: null,
      })),
  };

  function watched(fault: Fault) {
    const ports = manualPorts();
    const types: string[] = [];
    const { store } = faultyStore(memoryStore({ ports }), () => fault);
    const settings = { failureThreshold: 1, openMs: 1_000 };
    const breaker = createBreaker("memory", settings, ports.clock, ({ type }) => types.push(type));
    return { store: guardedStore(store, breaker), types };
  }

  test.each(Object.entries(calls))("a failure of %s", async (_name, call) => {
    const { store, types } = watched("not_sent");
    await expect(call(store)).rejects.toBeInstanceOf(StoreError);
    expect(types).toEqual(["circuit_opened"]);
  });

  test.each(Object.entries(calls))("no failure when %s succeeds", async (_name, call) => {
    const { store, types } = watched("proceed");
    await call(store);
    expect(types).toEqual([]);
  });

  test("no failure of hints, on which nothing depends", async () => {
    const { store, types } = watched("not_sent");
    await expect(store.hints?.listen(() => {})).rejects.toBeInstanceOf(StoreError);
    store.hints?.send("effects");
    expect(types).toEqual([]);
  });

  test("no failure of re-fencing, which may fail because another transaction holds the record", async () => {
    const { store, types } = watched("request_lost");
    const refence = store.journal.refence(owner, "1".repeat(32), 1_000, 1_000);
    await expect(refence).rejects.toBeInstanceOf(StoreError);
    expect(types).toEqual([]);
  });
});

test("a guarded store has what the store has, and lacks what it lacks", () => {
  const settings = { failureThreshold: 1, openMs: 1_000 };
  const guarded = (store: Store<MemoryTransaction>) =>
    guardedStore(
      store,
      createBreaker("memory", settings, manualPorts().clock, () => {}),
    );
  const namesIn = ({ transactions, outbox, ...rest }: Store<MemoryTransaction>) =>
    [rest, transactions ?? {}, outbox ?? {}].map((part) => Object.keys(part).sort());
  const { rows: _rows, ...memory } = memoryStore();
  const whole: Store<MemoryTransaction> = {
    ...memory,
    outbox: memory.outbox && { ...memory.outbox, partOf: () => 0 },
    ownCircuits: true,
    leasesRefused: "is refused here",
    finished: { look: async () => null },
    overview: async () => overviewOf(memory, 1),
    examine: async () => [],
    close: async () => {},
  };
  expect(namesIn(guarded(whole))).toEqual(namesIn(whole));
  const { early, archival, tenantData, summaries, cleanAudit, listAudit, ...rest } = memory;
  const { runBatch, runOptimistic, ...transactions } = memory.transactions ?? expect.unreachable();
  const { byDownstreamKey, finished, ...outbox } = memory.outbox ?? expect.unreachable();
  const bare: Store<MemoryTransaction> = { ...rest, transactions, outbox };
  expect(namesIn(guarded(bare))).toEqual(namesIn(bare));
});
