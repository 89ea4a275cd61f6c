/** Defects that random schedules have found, each reduced to what it needs. */
import { expect, test } from "vitest";
import { createLatchkey } from "../../../packages/latchkey/src/index.ts";
import { type MemoryTransaction, memoryStore } from "../../../packages/latchkey/src/stores/memory.ts";
import type { Store } from "../../../packages/latchkey/src/stores/store.ts";
import {
  type Fault,
  type FaultPlan,
  faultyStore,
  type StorePort,
} from "../../../packages/latchkey/src/testing/index.ts";
import { recordCleaner } from "../../../packages/latchkey/src/workers/record-cleaner.ts";
import { manualPorts } from "../../support/manual-ports.ts";

interface Setting {
  /** What becomes of the first process's calls. */
  readonly plan: FaultPlan;
}

/** An operation of one phase under a lease of 3 seconds, whose attempts have 8 seconds. */
function setUp({ plan }: Setting) {
  const ports = manualPorts();
  const store = memoryStore({ ports });
  const start = (reached: Store<MemoryTransaction>) => {
    const latchkey = createLatchkey<MemoryTransaction>({ store: reached, ports, circuitBreaker: false });
    const operation = latchkey.operation("order", {
      execution: "lease",
      leaseEnd: "resume",
      leaseMs: 3_000,
      attemptLimitMs: 8_000,
      version: "1",
      run: async (_: object, attempt) => {
        await attempt.phase("placed", (tx: MemoryTransaction) => tx.insert("orders", { id: attempt.id }));
        return { status: 201 };
      },
    });
    const ended = () =>
      latchkey.run(operation, { tenant: "t", key: "k", input: {} }).catch((error: unknown) => error);
    return { ended };
  };
  const read = async () => (await store.read({ tenant: "t", scope: "order", key: "k" })).record;
  return { ports, store, read, first: start(faultyStore(store, plan).store), second: start(store) };
}

/** The first process's calls of these ports wait until they are let go. */
function parking(...names: readonly StorePort[]) {
  const parked = new Map(names.map((name) => [name, Promise.withResolvers<Fault>()]));
  const world = setUp({ plan: ({ port }) => parked.get(port)?.promise ?? "proceed" });
  const letGo = async (name: StorePort, fault: Fault = "proceed") => {
    parked.get(name)?.resolve(fault);
    await world.ports.clock.advance(0);
  };
  return { ...world, letGo };
}

test("a phase that opens after the attempt's limit does not commit behind a release", async () => {
  const { ports, store, first, second, letGo } = parking("openPhase", "end");
  const ended = first.ended();
  // Past the limit, and past what it waits for a step that is under way: its end is asked for.
  await ports.clock.advance(8_000 + 5_000);
  await letGo("openPhase");
  await letGo("end");
  expect(await ended).toMatchObject({ code: "attempt-limit" });
  expect(store.rows("orders"), "what nobody will know of is not there").toHaveLength(0);
  expect(await second.ended()).toMatchObject({ kind: "executed" });
  expect(store.rows("orders")).toHaveLength(1);
});

test("a step that outlives its attempt does not keep the lease", async () => {
  const commit = Promise.withResolvers<Fault>();
  const { ports, read, first, second } = setUp({
    plan: ({ port }) => (port === "commitPhase" ? commit.promise : port === "end" ? "not_sent" : "proceed"),
  });
  const ended = first.ended();
  // Its end cannot be written, and its last step is still under way when it gives up.
  await ports.clock.advance(8_000 + 5_000 + 15_000);
  expect(await ended).toMatchObject({ code: "attempt-limit" });
  commit.resolve("request_lost");
  await ports.clock.advance(30_000);
  const record = await read();
  expect(record).toMatchObject({ state: "in_progress" });
  expect(record?.state === "in_progress" && record.leaseEndsAt).toBeLessThan(ports.clock.wallMs());
  expect(await second.ended()).toMatchObject({ kind: "executed" });
});

test("a step that its attempt has given up takes no new token, under which nobody would run", async () => {
  const { ports, read, first, second, letGo } = parking("commitPhase", "end");
  const ended = first.ended();
  // Past the limit, and past what it waits for a step that is under way: its end is asked for.
  await ports.clock.advance(8_000 + 5_000);
  await letGo("commitPhase", "request_lost");
  await letGo("end");
  expect(await ended).toMatchObject({ code: "attempt-limit" });
  expect(await read()).toMatchObject({ state: "retryable" });
  expect(await second.ended()).toMatchObject({ kind: "executed" });
});

test("an attempt ends under the token that a step of its own has taken meanwhile", async () => {
  const { ports, read, first, second, letGo } = parking("commitPhase", "refence", "end");
  const ended = first.ended();
  await ports.clock.advance(8_000 + 2_000);
  await letGo("commitPhase", "request_lost");
  // The step is given up while it asks for its new token.
  await ports.clock.advance(3_000);
  await letGo("refence");
  await letGo("end");
  expect(await ended).toMatchObject({ code: "attempt-limit" });
  expect(await read()).toMatchObject({ state: "retryable" });
  expect(await second.ended()).toMatchObject({ kind: "executed" });
});

test("a COMMIT in doubt that is asked about when its record may be forgotten stays in doubt", async () => {
  const ports = manualPorts();
  const store = memoryStore({ ports });
  const resolving = Promise.withResolvers<Fault>();
  let commits = 0;
  const plan: FaultPlan = ({ port }) => {
    if (port === "resolve") return resolving.promise;
    return port === "commit" && ++commits === 1 ? "reply_lost" : "proceed";
  };
  const reached = faultyStore(store, plan).store;
  const latchkey = createLatchkey<MemoryTransaction>({ store: reached, ports, circuitBreaker: false });
  const operation = latchkey.operation("order", { execution: "transaction", retentionMs: 20_000 });
  const ended = latchkey
    .run(operation, { tenant: "t", key: "k", input: {} }, ({ tx }) => tx.insert("orders", {}))
    .catch((error: unknown) => error);
  await ports.clock.advance(20_000);
  await recordCleaner(createLatchkey({ store, ports })).runOnce();
  resolving.resolve("proceed");
  await ports.clock.advance(1_000);
  expect(await ended).toMatchObject({ kind: "commit_in_doubt" });
  expect(store.rows("orders"), "it is not done again").toHaveLength(1);
});

test("a COMMIT in doubt that is asked about when a new life may have replaced its record stays in doubt", async () => {
  const ports = manualPorts();
  const store = memoryStore({ ports });
  const resolving = Promise.withResolvers<Fault>();
  const plan: FaultPlan = ({ port }) => {
    if (port === "resolve") return resolving.promise;
    return port === "commit" ? "reply_lost" : "proceed";
  };
  const options = {
    execution: "transaction",
    reuse: "execute",
    retentionMs: 20_000,
    forgetAfterMs: 60_000,
  } as const;
  const reached = createLatchkey<MemoryTransaction>({
    store: faultyStore(store, plan).store,
    ports,
    circuitBreaker: false,
  });
  const other = createLatchkey<MemoryTransaction>({ store, ports });
  const submission = { tenant: "t", key: "k", input: {} };
  const ended = reached
    .run(reached.operation("order", options), submission, ({ tx }) => tx.insert("orders", { by: "us" }))
    .catch((error: unknown) => error);
  await ports.clock.advance(20_000);
  const next = await other.run(other.operation("order", options), submission, ({ tx }) =>
    tx.insert("orders", { by: "them" }),
  );
  expect(next).toMatchObject({ kind: "executed" });
  resolving.resolve("proceed");
  await ports.clock.advance(1_000);
  expect(await ended).toMatchObject({ kind: "commit_in_doubt" });
  expect(store.rows("orders"), "ours is not done again").toHaveLength(2);
});
