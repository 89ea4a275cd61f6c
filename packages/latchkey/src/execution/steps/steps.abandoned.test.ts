/** Steps that their attempt no longer waits for: whatever their outcome, the attempt has ended without them. */
import { expect, test } from "vitest";
import { manualPorts } from "../../../../../test/support/manual-ports.ts";
import { createLatchkey, type LatchkeyEvent } from "../../index.ts";
import type { OwnAttempt } from "../../operations/owned-work.ts";
import { type MemoryTransaction, memoryStore } from "../../stores/memory.ts";
import type { Fault } from "../../testing/faulty-store/fault.ts";
import { type FaultPlan, faultyStore } from "../../testing/index.ts";

type Attempt = OwnAttempt<MemoryTransaction, "lease">;

const leaseMs = 3_000;
const attemptLimitMs = 8_000;
/** How long an attempt waits for a step that `run` has left. */
const stepEndLimitMs = 5_000;

function setUp(plan: FaultPlan) {
  const ports = manualPorts();
  const store = memoryStore({ ports });
  const events: LatchkeyEvent["type"][] = [];
  const latchkey = createLatchkey<MemoryTransaction>({
    store: faultyStore(store, plan).store,
    ports,
    circuitBreaker: false,
    onEvent: ({ type }) => events.push(type),
  });
  const define = (name: string, run: (attempt: Attempt) => Promise<{ status: number }>) => {
    const terms = { execution: "lease", leaseEnd: "resume", leaseMs, attemptLimitMs, version: "1" } as const;
    const operation = latchkey.operation(name, {
      ...terms,
      run: (_: object, attempt: Attempt) => run(attempt),
    });
    return () =>
      latchkey.run(operation, { tenant: "t", key: "k", input: {} }).catch((error: unknown) => error);
  };
  const read = async (scope: string) => (await store.read({ tenant: "t", scope, key: "k" })).record;
  return { ports, store, events, latchkey, define, read };
}

const tooSlow = () => Promise.reject(new Error("too slow"));

test("a phase that run has left does not commit after a release", async () => {
  const end = Promise.withResolvers<Fault>();
  const work = Promise.withResolvers<void>();
  const { ports, store, define, read } = setUp(({ port }) => (port === "end" ? end.promise : "proceed"));
  let isSlow = true;
  const ended = define("order", async (attempt) => {
    const phase = attempt.phase("placed", async (tx) => {
      if (isSlow) await work.promise;
      await tx.insert("orders", { id: attempt.id });
    });
    await (isSlow ? Promise.race([phase, tooSlow()]) : phase);
    return { status: 201 };
  });
  const first = ended();
  await ports.clock.advance(stepEndLimitMs);
  work.resolve();
  await ports.clock.advance(0);
  end.resolve("proceed");
  await ports.clock.advance(0);
  expect(await first).toMatchObject({ message: "too slow" });
  expect(await read("order"), "the key must be free").toBeNull();
  expect(store.rows("orders"), "and nothing has happened").toHaveLength(0);
  isSlow = false;
  expect(await ended()).toMatchObject({ kind: "executed" });
  expect(store.rows("orders")).toHaveLength(1);
});

test("a call that run has left is not sent after a release", async () => {
  const end = Promise.withResolvers<Fault>();
  const place = Promise.withResolvers<void>();
  const { ports, latchkey, define, read } = setUp(({ port, key }) =>
    port === "end" && key?.scope === "order" ? end.promise : "proceed",
  );
  const sends: string[] = [];
  const charge = latchkey.effect("charge", {
    deduplication: "provider",
    dedupeWindowMs: 100_000_000,
    limits: { concurrency: 1, timeoutMs: 60_000 },
    execute: async (_: object, { key }) => {
      sends.push(key);
      if (sends.length === 1) await place.promise;
      return {};
    },
  });
  let isSlow = true;
  const holder = define("holder", async (attempt) => {
    await attempt.call("charged", charge, {});
    return { status: 201 };
  });
  const order = define("order", async (attempt) => {
    const call = attempt.call("charged", charge, {});
    await (isSlow ? Promise.race([call, tooSlow()]) : call);
    return { status: 201 };
  });
  const holding = holder();
  await ports.clock.advance(0);
  const first = order();
  await ports.clock.advance(stepEndLimitMs);
  // Its place comes free while its end is on the way.
  place.resolve();
  await ports.clock.advance(0);
  end.resolve("proceed");
  await ports.clock.advance(0);
  await holding;
  expect(await first).toMatchObject({ message: "too slow" });
  expect(await read("order"), "the key must be free").toBeNull();
  expect(sends, "and nothing was sent for it").toHaveLength(1);
  isSlow = false;
  expect(await order()).toMatchObject({ kind: "executed" });
  expect(sends).toHaveLength(2);
});

async function placing(attempt: Attempt) {
  await attempt.phase("placed", (tx) => tx.insert("orders", { id: attempt.id }));
  return { status: 201 };
}

test("an attempt ends under the token that its step has requested, before the step gets the reply", async () => {
  const parked = { commitPhase: Promise.withResolvers<Fault>(), end: Promise.withResolvers<Fault>() };
  const replied = Promise.withResolvers<void>();
  const { ports, events, define, read } = setUp(({ port }) => {
    if (port === "commitPhase" || port === "end") return parked[port].promise;
    return port === "refence" ? { kind: "reply", until: replied.promise } : "proceed";
  });
  const ended = define("order", placing)();
  await ports.clock.advance(attemptLimitMs + stepEndLimitMs - 1_000);
  parked.commitPhase.resolve("request_lost");
  await ports.clock.advance(1_000);
  parked.end.resolve("proceed");
  await ports.clock.advance(0);
  expect(await ended).toMatchObject({ code: "attempt-limit" });
  expect(await read("order")).toMatchObject({ state: "retryable" });
  expect(events).not.toContain("lease_lost");
  replied.resolve();
  await ports.clock.advance(leaseMs);
  expect(await read("order"), "and stays so").toMatchObject({ state: "retryable" });
});

test("an attempt that has ended has not lost its lease, although its step was still running", async () => {
  const commit = Promise.withResolvers<Fault>();
  const replied = Promise.withResolvers<void>();
  const { ports, events, define, read } = setUp(({ port }) => {
    if (port === "commitPhase") return commit.promise;
    return port === "end" ? { kind: "reply", until: replied.promise } : "proceed";
  });
  const ended = define("order", placing)();
  await ports.clock.advance(attemptLimitMs + 100);
  commit.resolve("proceed");
  // A beat meets the end, whose reply is on the way.
  await ports.clock.advance(leaseMs / 2);
  replied.resolve();
  await ports.clock.advance(100);
  expect(await ended).toMatchObject({ code: "attempt-limit" });
  expect(await read("order")).toMatchObject({ state: "retryable" });
  expect(events).not.toContain("lease_lost");
});

test("a caller whose attempt has ended in doubt does not get in_progress for its own record", async () => {
  const { ports, define, read } = setUp(({ port }) => (port === "end" ? "request_lost" : "proceed"));
  const ended = define("order", async (attempt) => {
    await attempt.phase("placed", (tx) => tx.insert("orders", { id: attempt.id }));
    throw new Error("the handler's own");
  })();
  await ports.clock.advance(20_000);
  expect(await ended).toMatchObject({ message: "the handler's own" });
  expect(await read("order")).toMatchObject({ state: "in_progress" });
});
