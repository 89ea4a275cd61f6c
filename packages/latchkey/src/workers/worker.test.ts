import { describe, expect, test } from "vitest";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import { StoreError } from "../errors.ts";
import { leaseTerms } from "../execution/lease/admit-lease.ts";
import { createLatchkey } from "../latchkey.ts";
import type { RunAnswer, StepAttempt } from "../operations/owned-work.ts";
import { type MemoryTransaction, memoryStore } from "../stores/memory.ts";
import type { Store } from "../stores/store.ts";
import type { LatchkeyEvent } from "../telemetry/events.ts";
import type { WorkerOptions } from "./worker.ts";

type Input = { readonly name: string };
type Run = (input: Input, attempt: StepAttempt<MemoryTransaction>) => Promise<RunAnswer>;

function setUp(
  run: Run,
  wrap: (store: Store<MemoryTransaction>) => Store<MemoryTransaction> = (store) => store,
) {
  const ports = manualPorts();
  const store = memoryStore({ ports });
  const events: LatchkeyEvent[] = [];
  /** One process. */
  const start = (options?: WorkerOptions) => {
    const latchkey = createLatchkey<MemoryTransaction>({
      store: wrap(store),
      ports,
      circuitBreaker: false,
      onEvent: (event) => events.push(event),
    });
    const report = latchkey.operation("report", { execution: "deferred", version: "1", run });
    const submit = (name: string) => latchkey.run(report, { tenant: "t", key: name, input: { name } });
    return { latchkey, submit, work: () => latchkey.startWorker(options) };
  };
  const record = async (name: string) =>
    (await store.read({ tenant: "t", scope: "report", key: name })).record;
  return { ports, store, events, start, record };
}

const answers: Run = async ({ name }) => ({ status: 201, body: { name } });

describe("deferred work", () => {
  test("is done by a worker in another process, once, at its next look", async () => {
    let runs = 0;
    const world = setUp(async (input, attempt) => {
      runs += 1;
      return answers(input, attempt);
    });
    expect(await world.start().submit("a")).toMatchObject({ kind: "accepted" });
    const workers = [world.start().work(), world.start().work(), world.start().work()];
    await world.ports.clock.advance(1_200);
    expect(await world.record("a")).toMatchObject({ state: "completed" });
    expect(runs).toBe(1);
    expect(await world.start().submit("a")).toMatchObject({
      kind: "replay",
      status: 201,
      value: { name: "a" },
    });
    for (const worker of workers) await worker.stop();
  });

  test("is begun at once after a hint", async () => {
    const world = setUp(answers);
    const { submit } = world.start();
    const worker = world.start({ pendingWork: { intervalMs: 1_000_000 } }).work();
    await world.ports.clock.advance(0);
    await submit("a");
    await world.ports.clock.advance(0);
    expect(await world.record("a")).toMatchObject({ state: "completed" });
    await worker.stop();
  });

  test("runs up to `concurrency` attempts at once, and the next when one is done", async () => {
    const waiting: (() => void)[] = [];
    const world = setUp((input, attempt) =>
      new Promise<void>((resolve) => waiting.push(resolve)).then(() => answers(input, attempt)),
    );
    const { submit } = world.start();
    for (const name of ["a", "b", "c", "d", "e"]) await submit(name);
    const worker = world.start({ concurrency: 2, pendingWork: { intervalMs: 1_000_000 } }).work();
    await world.ports.clock.advance(0);
    expect(waiting).toHaveLength(2);
    waiting[0]?.();
    await world.ports.clock.advance(0);
    expect(waiting).toHaveLength(3);
    for (let done = 1; done < 5; done++) {
      waiting[done]?.();
      await world.ports.clock.advance(0);
    }
    for (const name of ["a", "b", "c", "d", "e"])
      expect(await world.record(name)).toMatchObject({ state: "completed" });
    await worker.stop();
  });

  test("is resumed when its worker has died, and when it is to be retried", async () => {
    let runs = 0;
    const world = setUp(async (input, attempt) => {
      runs += 1;
      if (runs === 1) throw new Error("not yet");
      return answers(input, attempt);
    });
    const { submit, work } = world.start();
    await submit("a");
    const worker = work();
    await world.ports.clock.advance(60_000);
    expect(runs).toBe(2);
    expect(await world.record("a")).toMatchObject({ state: "completed" });
    await worker.stop();
  });
});

test("with pendingWork: false no deferred work runs, not even that of a dead worker or a failed attempt", async () => {
  let runs = 0;
  const world = setUp(async (input, attempt) => {
    runs += 1;
    if (runs === 1) throw new Error("not yet");
    return answers(input, attempt);
  });
  const { submit, latchkey, work } = world.start();
  await submit("failed");
  const first = world.start({ leaseRescuer: false }).work();
  await world.ports.clock.advance(10);
  await first.stop();
  await submit("dead");
  const report = latchkey.runtime.operations.get("report");
  if (report === undefined) throw new Error("It is defined");
  const token = latchkey.runtime.ports.random.token();
  await world.store.claimPending([{ operation: report.name, tokens: [token], terms: leaseTerms(report) }]);
  await submit("waits");
  const idle = world.start({ pendingWork: false }).work();
  await world.ports.clock.advance(60_000);
  expect(runs).toBe(1);
  expect(await world.record("failed")).toMatchObject({ state: "retryable" });
  expect(await world.record("dead")).toMatchObject({ state: "in_progress" });
  expect(await world.record("waits")).toMatchObject({ state: "pending" });
  await idle.stop();
  const next = work();
  await world.ports.clock.advance(3_000);
  for (const name of ["failed", "dead", "waits"])
    expect(await world.record(name)).toMatchObject({ state: "completed" });
  await next.stop();
});

describe("stopping", () => {
  test("waits for running work, and begins nothing more", async () => {
    const gate = Promise.withResolvers<void>();
    const world = setUp((input, attempt) => gate.promise.then(() => answers(input, attempt)));
    const { submit, work } = world.start();
    await submit("a");
    const worker = work();
    await world.ports.clock.advance(0);
    let stopped = false;
    const stop = worker.stop().then(() => {
      stopped = true;
    });
    await submit("b");
    await world.ports.clock.advance(5_000);
    expect(stopped).toBe(false);
    gate.resolve();
    await Promise.all([stop, worker.stop()]);
    expect(await world.record("a")).toMatchObject({ state: "completed" });
    expect(await world.record("b")).toMatchObject({ state: "pending" });
    expect(world.events).toContainEqual({ type: "worker_stopped", inTime: true });
  });

  test("lets the process exit afterwards, in time or not", async () => {
    const world = setUp(() => new Promise(() => {}));
    const { submit, work, latchkey } = world.start();
    const { clock } = world.ports;
    expect(() => latchkey.startWorker({ stopLimitMs: 0 })).toThrow(TypeError);
    expect(clock.keepers()).toBe(0);
    const [first, second] = [work(), latchkey.startWorker({ stopLimitMs: 2_000, pendingWork: false })];
    expect(clock.keepers()).toBe(2);
    await submit("a");
    await clock.advance(0);
    await second.stop();
    expect(clock.keepers()).toBe(1);
    const stop = first.stop();
    await clock.advance(29_999);
    expect(clock.keepers(), "its work is under way").toBe(1);
    await clock.advance(1);
    expect(await stop).toBe(false);
    await first.stop();
    expect(clock.keepers()).toBe(0);
  });

  test("has a limit", async () => {
    const world = setUp(() => new Promise(() => {}));
    const { submit, latchkey } = world.start();
    await submit("a");
    const worker = latchkey.startWorker({ stopLimitMs: 2_000 });
    await world.ports.clock.advance(0);
    const stop = worker.stop();
    await world.ports.clock.advance(2_000);
    await stop;
    expect(world.events).toContainEqual({ type: "worker_stopped", inTime: false });
  });

  test("releases work that was claimed meanwhile at once, and waits for that", async () => {
    const [gate, ends] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let held = true;
    const world = setUp(answers, (store) => ({
      ...store,
      end: async (...attempt) => {
        await ends.promise;
        return store.end(...attempt);
      },
      claimPending: async (wants) => {
        const claimed = await store.claimPending(wants);
        if (held) await gate.promise;
        return claimed;
      },
    }));
    const { submit, work } = world.start();
    await submit("a");
    const worker = work();
    await world.ports.clock.advance(0);
    held = false;
    let stopped = false;
    const stop = worker.stop().then(() => {
      stopped = true;
    });
    gate.resolve();
    await world.ports.clock.advance(1_000);
    expect(stopped, "the store is still needed").toBe(false);
    ends.resolve();
    await stop;
    expect(await world.record("a")).toMatchObject({ state: "retryable", lastErrorCode: "not-started" });
    const next = world.start().work();
    await world.ports.clock.advance(2_000);
    expect(await world.record("a")).toMatchObject({ state: "completed" });
    await next.stop();
  });
});

describe("health", () => {
  test("shows when each service last ran, and whether the store answers", async () => {
    let down = false;
    const fails = (): Promise<never> => Promise.reject(new StoreError("not_sent"));
    const world = setUp(answers, (store) => ({ ...store, verify: () => (down ? fails() : store.verify()) }));
    const worker = world.start().work();
    await world.ports.clock.advance(10);
    const health = await worker.health();
    expect(health).toMatchObject({ ok: true, stopping: false, store: { answers: true, error: null } });
    expect(health.services.map(({ name }) => name)).toEqual([
      "worker",
      "effect-dispatcher",
      "lease-rescuer",
      "outcome-reconciler",
      "record-cleaner",
    ]);
    for (const service of health.services)
      expect(service).toMatchObject({ running: true, alive: true, lastError: null });
    down = true;
    expect(await worker.health()).toMatchObject({ ok: false, store: { answers: false } });
    down = false;
    await worker.stop();
    expect(await worker.health()).toMatchObject({ ok: false, stopping: true });
  });

  test("reports a service that hangs, which runs again after its round's time limit", async () => {
    let hangs = true;
    const world = setUp(answers, (store) => ({
      ...store,
      clean: (limit) => (hangs ? new Promise(() => {}) : store.clean(limit)),
    }));
    const worker = world.start().work();
    await world.ports.clock.advance(61_000);
    const cleaner = async () => (await worker.health()).services.at(-1);
    expect(await cleaner()).toMatchObject({ lastError: expect.any(Error) });
    hangs = false;
    await world.ports.clock.advance(60_000);
    expect(await cleaner()).toMatchObject({ lastError: null });
    await worker.stop();
  });
});

test("every service can be left out, and a store without an outbox has no dispatcher", async () => {
  let listens = 0;
  const hints = {
    send: () => {},
    listen: async () => {
      listens += 1;
      return async () => {};
    },
  };
  const world = setUp(answers, (store) => ({ ...store, outbox: null, hints }));
  const { latchkey } = world.start();
  const none = {
    pendingWork: false,
    leaseRescuer: false,
    outcomeReconciler: false,
    recordCleaner: false,
  } as const;
  const worker = latchkey.startWorker(none);
  expect((await worker.health()).services).toEqual([]);
  expect(listens, "with nothing to wake, no connection is held for hints").toBe(0);
  await worker.stop();
});

test.each([
  [{ concurrency: 0 }, "concurrency"],
  [{ stopLimitMs: -1 }, "stopLimitMs"],
  [{ pendingWork: { intervalMs: 0.5 } }, "intervalMs"],
  [{ effectDispatcher: { batchSize: 0 } }, "batchSize"],
])("refuses %j", (options, message) => {
  expect(() => setUp(answers).start().latchkey.startWorker(options)).toThrow(message);
});
