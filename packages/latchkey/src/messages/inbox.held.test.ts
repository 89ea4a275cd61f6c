/** What an inbox does with a message between two tries: doubts, stops, returns that are owed, and turns. */
import { describe, expect, test } from "vitest";
import { again, killed, message, setUp, sharedWorld, ship } from "../../../../test/brokers/inbox-arrange.ts";
import { createLatchkey } from "../latchkey.ts";
import { memoryStore } from "../stores/memory.ts";
import type { Fault, FaultPlan, StorePort } from "../testing/index.ts";
import { createInbox } from "./inbox.ts";

/** The first calls of each port meet these; then all is well. */
function faults(plans: Partial<Record<StorePort, (Fault | Promise<Fault>)[]>>): FaultPlan {
  return ({ port }) => plans[port]?.shift() ?? "proceed";
}

/** Commits, and cannot find out. */
const doubt = () => faults({ commit: ["reply_lost"], resolve: ["not_sent"] });

/** A handler that waits at its first message of that order. */
function held(order: number) {
  const gate = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const runs: number[] = [];
  const handler: typeof ship = async (context) => {
    runs.push(context.input.order);
    await ship(context);
    if (context.input.order !== order) return;
    begun.resolve();
    await gate.promise;
  };
  return { handler, runs, begun: begun.promise, open: () => gate.resolve() };
}

describe("a COMMIT in doubt", () => {
  test("is a duplicate as soon as the store tells", async () => {
    const { consume, rows } = setUp(ship, {}, sharedWorld(), { fault: doubt() });
    expect(await consume(message(1))).toEqual({ settle: "ack", because: "duplicate" });
    expect(rows()).toHaveLength(1);
  });

  test("that may have been forgotten meanwhile does not run again: it is a dead letter", async () => {
    const world = sharedWorld();
    await killed(world, again(message(2)));
    const { handler, begun, open } = held(2);
    const rememberedMs = 30_000;
    const { inbox, rows, dead, ports } = setUp(handler, { backoffMaxMs: 10_000 }, world, {
      operation: { retentionMs: rememberedMs, transactionLimitMs: 10 * rememberedMs },
      fault: doubt(),
    });
    const doubted = inbox.consume(message(1));
    await ports.clock.advance(1);
    expect(rows(), "it has committed").toHaveLength(1);
    const suspect = inbox.consume(again(message(2)));
    await begun;
    // The suspect runs alone, and holds the other one up for longer than its hold.
    await ports.clock.advance(rememberedMs + 1);
    open();
    await ports.clock.advance(5_000);
    expect((await suspect).settle).toBe("ack");
    expect(await doubted).toEqual({ settle: "dead", because: "outcome-unknown" });
    expect(rows().filter(({ order }) => order === 1)).toHaveLength(1);
    expect(await dead()).toMatchObject([{ reason: "outcome-unknown", key: "order-1" }]);
  });

  test("what is known not to have happened is not in doubt, however long it is held", async () => {
    const world = sharedWorld();
    await killed(world, again(message(2)));
    const { handler, begun, open } = held(2);
    const { inbox, rows, ports } = setUp(handler, { backoffMaxMs: 10_000 }, world, {
      operation: { retentionMs: 30_000, transactionLimitMs: 300_000 },
      fault: faults({ open: ["not_sent"] }),
    });
    const refused = inbox.consume(message(1));
    await ports.clock.advance(1);
    const suspect = inbox.consume(again(message(2)));
    await begun;
    await ports.clock.advance(30_001);
    open();
    await ports.clock.advance(5_000);
    expect([(await refused).settle, (await suspect).settle]).toEqual(["ack", "ack"]);
    expect(rows()).toHaveLength(2);
  });

  test("an operation that forgets a key sooner than an inbox lets go of its message is refused", () => {
    const latchkey = createLatchkey({ store: memoryStore() });
    const make = (name: string, settings: object, options: object = {}) => {
      const operation = latchkey.operation(name, { execution: "transaction", ...settings });
      return createInbox(latchkey, operation, { tenant: "t", ...options }, async () => {});
    };
    expect(() => make("a", { retentionMs: 70_000 })).toThrow("remembers");
    expect(() => make("b", { retentionMs: 70_001 })).not.toThrow();
    expect(() => make("c", { retentionMs: 1_000, forgetAfterMs: 70_001 })).not.toThrow();
    expect(() => make("d", { retentionMs: 1_000, forgetAfterMs: 70_001, reuse: "execute" })).toThrow(
      "Raise retentionMs",
    );
    expect(() => make("g", { retentionMs: 1_000, forgetAfterMs: 2_000 })).toThrow("Raise forgetAfterMs");
    const quick = { holdMs: 400, backoffMaxMs: 500 };
    expect(() => make("e", { retentionMs: 900 }, quick)).toThrow(TypeError);
    expect(() => make("f", { retentionMs: 901 }, quick)).not.toThrow();
  });
});

describe("closing", () => {
  test("begins nothing that waits for its turn, and waits for what runs", async () => {
    const world = sharedWorld();
    for (const order of [2, 3]) await killed(world, again(message(order)));
    const { handler, runs, begun, open } = held(1);
    const { inbox, ports } = setUp(handler, {}, world);
    const running = inbox.consume(message(1));
    await begun;
    const waiting = [again(message(2)), again(message(3))].map((one) => inbox.consume(one));
    await ports.clock.advance(1);
    waiting.push(inbox.consume(message(4)));
    inbox.close();
    open();
    await ports.clock.advance(1_000);
    expect(await running).toEqual({ settle: "ack", because: "executed" });
    const stopping = { settle: "give_back", because: "stopping", afterMs: 0 };
    expect(await Promise.all(waiting)).toEqual([stopping, stopping, stopping]);
    expect(runs).toEqual([1]);
    expect(inbox.counts()).toMatchObject({ received: 4, executed: 1, givenBack: 3 });
  });

  test("begins nothing that comes later, or whose tally was being looked up", async () => {
    const looking = Promise.withResolvers<Fault>();
    const { handler, runs } = held(0);
    const { inbox, consume } = setUp(handler, {}, sharedWorld(), {
      fault: faults({ findMessage: [looking.promise] }),
    });
    const looked = inbox.consume(again(message(1)));
    inbox.close();
    looking.resolve("proceed");
    const stopping = { settle: "give_back", because: "stopping", afterMs: 0 };
    expect(await looked).toEqual(stopping);
    expect(await consume(message(2))).toEqual(stopping);
    expect(runs).toEqual([]);
  });
});

describe("a return that is owed", () => {
  test("is written before the message is given back: an outage is no death, however long", async () => {
    const world = sharedWorld();
    for (let outage = 0; outage < 3; outage++) {
      const setup = setUp(
        async () => {
          setup.fail(true);
          throw new Error("no database");
        },
        { holdMs: 1_000 },
        world,
      );
      const verdict = setup.inbox.consume(again(message(1)));
      for (let step = 0; step < 50; step++) await world.ports.clock.advance(100);
      expect(setup.inbox.counts().givenBack, "held, while its return cannot be written").toBe(0);
      setup.inbox.close();
      setup.fail(false);
      await world.ports.clock.advance(2_000);
      expect((await verdict).settle).toBe("give_back");
    }
    const { consume, rows } = setUp(ship, {}, world);
    expect(await consume(again(message(1)))).toEqual({ settle: "ack", because: "executed" });
    expect(rows()).toHaveLength(1);
  });

  test("is owed, too, for a start of which it is not known whether it was written", async () => {
    const world = sharedWorld();
    for (let lost = 0; lost < 3; lost++) {
      const { inbox, ports } = setUp(ship, { holdMs: 1 }, world, {
        fault: faults({ countMessage: ["reply_lost"] }),
      });
      const verdict = inbox.consume(again(message(1)));
      await ports.clock.advance(100);
      expect((await verdict).settle).toBe("give_back");
    }
    const { consume } = setUp(ship, {}, world);
    expect(await consume(again(message(1)))).toEqual({ settle: "ack", because: "executed" });
  });
});

test("a message that has become a dead letter since it was looked up does not run", async () => {
  const world = sharedWorld();
  const counting = Promise.withResolvers<Fault>();
  const late = setUp(ship, {}, world, { fault: faults({ countMessage: [counting.promise] }) });
  const verdict = late.inbox.consume(again(message(1)));
  await world.ports.clock.advance(1);
  const refusing = setUp(() => Promise.reject(new Error("never")), { failuresMax: 1 }, world);
  expect(await refusing.consume(message(1))).toEqual({ settle: "dead", because: "failed" });
  counting.resolve("proceed");
  await world.ports.clock.advance(1);
  expect(await verdict).toEqual({ settle: "dead", because: "dead-already" });
  expect(late.rows()).toEqual([]);
});

test("what came before a second suspect does not wait for it", async () => {
  const world = sharedWorld();
  for (const order of [1, 2]) await killed(world, again(message(order)));
  const { handler, runs, begun, open } = held(1);
  const { inbox, ports } = setUp(handler, {}, world);
  const all = [inbox.consume(again(message(1)))];
  await begun;
  for (const next of [message(3), again(message(2)), message(4)]) {
    all.push(inbox.consume(next));
    await ports.clock.advance(1);
  }
  open();
  await ports.clock.advance(1_000);
  for (const verdict of await Promise.all(all)) expect(verdict.settle).toBe("ack");
  expect(runs).toEqual([1, 3, 2, 4]);
});

test("what has gone through while it was being condemned is no dead letter", async () => {
  const world = sharedWorld();
  for (let death = 0; death < 3; death++) await killed(world, again(message(1)));
  const condemning = Promise.withResolvers<Fault>();
  const judge = setUp(ship, {}, world, { fault: faults({ buryMessage: [condemning.promise] }) });
  const verdict = judge.inbox.consume(again(message(1)));
  await world.ports.clock.advance(5_000);
  expect(judge.calls).toContain("buryMessage");
  const patient = setUp(ship, { killsMax: 10 }, world);
  expect(await patient.consume(again(message(1)))).toEqual({ settle: "ack", because: "executed" });
  condemning.resolve("proceed");
  await world.ports.clock.advance(5_000);
  expect(await verdict).toEqual({ settle: "ack", because: "duplicate" });
  expect([await judge.dead(), judge.rows().length]).toEqual([[], 1]);
  expect(judge.events.map(({ type }) => type)).not.toContain("message_dead");
});

test("what kills its process is condemned at its second look, however short it may be held", async () => {
  const world = sharedWorld();
  await killed(world, again(message(1)));
  const { consume, dead, rows } = setUp(ship, { holdMs: 300, killsMax: 1 }, world);
  expect(await consume(again(message(1)))).toEqual({ settle: "dead", because: "kills-its-process" });
  expect(await dead()).toHaveLength(1);
  expect(rows()).toHaveLength(0);
});

describe("a death that cannot be written down", () => {
  const throwing = () => {
    let runs = 0;
    const handler: typeof ship = async () => {
      runs += 1;
      throw new Error("it cannot be shipped");
    };
    return { handler, runs: () => runs };
  };

  test("runs nothing again while it is held", async () => {
    const { handler, runs } = throwing();
    const { consume, dead } = setUp(handler, { failuresMax: 1 }, sharedWorld(), {
      fault: faults({ buryMessage: ["not_sent", "not_sent", "not_sent"] }),
    });
    expect(await consume(message(1))).toEqual({ settle: "dead", because: "failed" });
    expect(runs()).toBe(1);
    expect(await dead()).toHaveLength(1);
  });

  test("runs nothing at its next delivery: its failures are spent", async () => {
    const { handler, runs } = throwing();
    const world = sharedWorld();
    const first = setUp(handler, { failuresMax: 1 }, world, {
      fault: ({ port }) => (port === "buryMessage" ? "not_sent" : "proceed"),
    });
    expect((await first.consume(message(1))).settle).toBe("give_back");
    expect(runs()).toBe(1);
    const { consume } = setUp(handler, { failuresMax: 1 }, world);
    expect(await consume(again(message(1)))).toEqual({ settle: "dead", because: "failed" });
    expect(runs()).toBe(1);
  });
});

// nats-server 2.9 can deliver a message of a consumer that died to the next one twice at once, the second time as if it
// were its first delivery. Without this, a message that kills its process ran uncounted in every new process.
test("a first delivery waits for a counted one of the same message, and is counted then", async () => {
  const world = sharedWorld();
  for (let death = 0; death < 3; death++) await killed(world, again(message(1)));
  const { inbox, dead, rows, ports } = setUp(ship, {}, world);
  const counted = inbox.consume(again(message(1)));
  const first = inbox.consume(message(1));
  await ports.clock.advance(5_000);
  expect(await counted).toEqual({ settle: "dead", because: "kills-its-process" });
  expect(await first).toEqual({ settle: "dead", because: "dead-already" });
  expect(rows(), "it did not run").toEqual([]);
  expect(await dead()).toMatchObject([{ starts: 3, returns: 0 }]);
});

test("a message that is delivered twice at once has one start in its tally", async () => {
  const { handler, begun, open, runs } = held(1);
  const { inbox, rows, ports, calls } = setUp(handler);
  const both = [inbox.consume(again(message(1))), inbox.consume(again(message(1)))];
  await begun;
  await ports.clock.advance(1_000);
  expect(calls.filter((port) => port === "countMessage")).toHaveLength(1);
  open();
  await ports.clock.advance(1_000);
  expect((await Promise.all(both)).map(({ settle }) => settle)).toEqual(["ack", "ack"]);
  expect([runs, rows().length]).toEqual([[1], 1]);
  expect(inbox.counts()).toMatchObject({ executed: 1, duplicates: 1 });
});
