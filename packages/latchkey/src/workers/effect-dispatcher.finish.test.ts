import { describe, expect, test } from "vitest";
import {
  type ChargeOptions,
  deliveryWorld,
  type ProcessOptions,
} from "../../../../test/support/delivery-world.ts";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import { createLatchkey } from "../latchkey.ts";
import { type MemoryTransaction, memoryStore } from "../stores/memory.ts";

type OnDelivered = NonNullable<ChargeOptions["onDelivered"]>;

async function finishing(onDelivered: OnDelivered, options: ProcessOptions = {}) {
  const world = deliveryWorld("provider");
  await world.enqueue(5);
  const process = world.start({ ...options, effect: { ...options.effect, onDelivered } });
  const round = async (afterMs = 0) => {
    await world.ports.clock.advance(afterMs);
    return process.dispatcher.runOnce();
  };
  return { ...world, ...process, round, receipts: () => world.store.rows("receipts") };
}

const receipt: OnDelivered = async ({ result }, tx) => tx.insert("receipts", { id: result.id });

describe("onDelivered", () => {
  test("receives all details, and its writes commit with the finish", async () => {
    const notified: unknown[] = [];
    const world = await finishing(async (delivered, tx) => {
      const { answer: _, ...what } = delivered;
      notified.push(what);
      await receipt(delivered, tx);
    });
    const [effect] = await world.open();
    expect(await world.round()).toMatchObject({ delivered: 1 });
    const { recordId, downstreamKey: key } = effect ?? {};
    const result = { id: "ch_1", amount: 5 };
    expect(notified).toEqual([
      { input: { amount: 5 }, result, tenant: "t", recordId, operation: "order", key },
    ]);
    expect(world.receipts()).toEqual([{ id: "ch_1" }]);
    expect(await world.inState("delivered")).toMatchObject([{ sends: 1, returns: 1 }]);
  });

  test("throws: its writes are rolled back, and it runs again without another send", async () => {
    let runs = 0;
    const world = await finishing(async (delivered, tx) => {
      await receipt(delivered, tx);
      runs += 1;
      if (runs < 3) throw new Error("no");
    });
    expect(await world.round()).toMatchObject({ retried: 1 });
    expect(world.receipts()).toEqual([]);
    const [kept] = await world.open();
    expect(kept).toMatchObject({ lastErrorCode: "on-delivered-failed", sends: 1, returns: 1 });
    expect(kept?.result).not.toBeNull();
    await world.round(10_000);
    expect(await world.round(10_000)).toMatchObject({ delivered: 1 });
    expect(world.receipts()).toHaveLength(1);
    expect(world.ledger.requests).toHaveLength(1);
  });

  test("always throws: the effect becomes a dead letter that keeps its result", async () => {
    const world = await finishing(() => Promise.reject(new Error("no")), {
      effect: { delivery: { attemptsMax: 3 } },
    });
    for (let round = 0; round < 5; round++) await world.round(10_000);
    const [dead] = await world.inState("dead");
    expect(dead).toMatchObject({ lastErrorCode: "on-delivered-failed", sends: 1 });
    expect(dead?.result).not.toBeNull();
    expect(world.ledger.requests).toHaveLength(1);
    expect(world.receipts()).toEqual([]);
  });

  test("is run again at once after a serialization failure", async () => {
    let runs = 0;
    const world = await finishing(async (delivered, tx) => {
      await receipt(delivered, tx);
      runs += 1;
      if (runs < 3) throw Object.assign(new Error("could not serialize"), { code: "40001" });
    });
    const round = world.dispatcher.runOnce();
    await world.ports.clock.advance(100);
    expect(await round).toMatchObject({ delivered: 1 });
    expect(runs).toBe(3);
    expect(world.receipts()).toHaveLength(1);
  });

  test("takes too long: its writes are rolled back, and it runs again", async () => {
    let runs = 0;
    const world = await finishing(async (delivered, tx) => {
      await receipt(delivered, tx);
      runs += 1;
      if (runs === 1) await new Promise(() => {});
    });
    const round = world.dispatcher.runOnce();
    await world.ports.clock.advance(500);
    expect(await round).toMatchObject({ retried: 1 });
    expect(world.receipts()).toEqual([]);
    expect(await world.round(5_000)).toMatchObject({ delivered: 1 });
    expect(world.receipts()).toHaveLength(1);
  });

  test("writes nothing if the claim was lost meanwhile", async () => {
    const gate = Promise.withResolvers<void>();
    let runs = 0;
    const slow: OnDelivered = async (delivered, tx) => {
      await receipt(delivered, tx);
      runs += 1;
      if (runs === 1) await gate.promise;
    };
    const ports = manualPorts();
    const world = await finishing(slow, { ports });
    const round = world.dispatcher.runOnce();
    await world.ports.clock.advance(11_000);
    const next = world.start({ effect: { onDelivered: receipt } });
    expect(await next.dispatcher.runOnce()).toMatchObject({ rescued: 1, delivered: 1 });
    gate.resolve();
    await ports.clock.advance(0);
    expect(await round).toMatchObject({ left: 1 });
    expect(world.receipts()).toHaveLength(1);
    expect(world.ledger.requests).toHaveLength(1);
  });

  test("cannot answer an operation that is not deferred", async () => {
    const errors: unknown[] = [];
    const world = await finishing(async ({ answer }) => {
      try {
        answer({ status: 200 });
      } catch (error) {
        errors.push(error);
      }
    });
    world.latchkey.operation("order");
    await world.round();
    expect(errors).toEqual([expect.any(TypeError)]);
  });
});

describe("answering a deferred operation", () => {
  function setUp({ answers = 1, attemptsMax = 20, ends = Promise.resolve() as Promise<void> } = {}) {
    const ports = manualPorts();
    const store = memoryStore({ ports });
    const sent: string[] = [];
    const start = () => {
      const latchkey = createLatchkey<MemoryTransaction>({ store, ports, circuitBreaker: false });
      const charge = latchkey.effect<{ amount: number }, { id: string }>("charge", {
        deduplication: "provider",
        dedupeWindowMs: 60_000,
        delivery: { attemptsMax },
        execute: async (_, { key }) => {
          sent.push(key);
          return { id: "ch_1" };
        },
        onDelivered: async ({ result, answer }, tx) => {
          await tx.insert("receipts", { id: result.id });
          for (let times = 0; times < answers; times++) answer({ status: 201, body: { charge: result.id } });
        },
      });
      const order = latchkey.operation("order", {
        execution: "deferred",
        version: "1",
        run: async (input: { amount: number }, attempt) => {
          await attempt.phase("order", async (tx) => {
            await tx.insert("orders", input);
            attempt.enqueue(charge, input);
          });
          await ends;
          return attempt.answeredBy(charge);
        },
      });
      const submit = () => latchkey.run(order, { tenant: "t", key: "k", input: { amount: 5 } });
      return { latchkey, submit };
    };
    const record = async () => (await store.read({ tenant: "t", scope: "order", key: "k" })).record;
    return { ports, store, sent, start, record };
  }

  test("completes it, in the transaction of the finish", async () => {
    const world = setUp();
    const { latchkey, submit } = world.start();
    expect(await submit()).toMatchObject({ kind: "accepted" });
    const worker = latchkey.startWorker();
    await world.ports.clock.advance(3_000);
    await worker.stop();
    expect(await world.record()).toMatchObject({ state: "completed" });
    expect(await submit()).toMatchObject({ kind: "replay", status: 201, value: { charge: "ch_1" } });
    expect(world.store.rows("receipts")).toHaveLength(1);
    expect(world.store.rows("orders")).toHaveLength(1);
    expect(world.sent).toHaveLength(1);
  });

  test("waits for an attempt that has not ended, without another send", async () => {
    const gate = Promise.withResolvers<void>();
    const world = setUp({ ends: gate.promise });
    const { latchkey, submit } = world.start();
    await submit();
    const worker = latchkey.startWorker();
    await world.ports.clock.advance(2_000);
    expect(world.sent).toHaveLength(1);
    expect(world.store.rows("receipts")).toEqual([]);
    gate.resolve();
    await world.ports.clock.advance(10_000);
    await worker.stop();
    expect(await submit()).toMatchObject({ kind: "replay", status: 201 });
    expect(world.store.rows("receipts")).toHaveLength(1);
    expect(world.sent).toHaveLength(1);
  });

  test("waits for a long attempt without spending the delivery's tries", async () => {
    const gate = Promise.withResolvers<void>();
    const world = setUp({ ends: gate.promise, attemptsMax: 2 });
    const { latchkey, submit } = world.start();
    await submit();
    const worker = latchkey.startWorker();
    await world.ports.clock.advance(30_000);
    gate.resolve();
    await world.ports.clock.advance(60_000);
    await worker.stop();
    expect(await submit()).toMatchObject({ kind: "replay", status: 201 });
    expect(world.sent).toHaveLength(1);
  });

  test("is refused the second time, and nothing is finished", async () => {
    const world = setUp({ answers: 2 });
    const { latchkey, submit } = world.start();
    await submit();
    const worker = latchkey.startWorker();
    await world.ports.clock.advance(3_000);
    await worker.stop();
    expect(await world.record()).toMatchObject({ state: "retryable" });
    expect(world.store.rows("receipts")).toEqual([]);
  });
});
