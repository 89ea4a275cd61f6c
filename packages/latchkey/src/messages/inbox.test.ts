/** The inbox over the memory store: what becomes of a message, whatever its handler, its store and its processes do. */
import { describe, expect, test } from "vitest";
import {
  again,
  killed,
  message,
  setUp,
  sharedWorld as shared,
  ship,
} from "../../../../test/brokers/inbox-arrange.ts";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import { MessageRefused } from "../errors.ts";
import { createLatchkey } from "../latchkey.ts";
import { memoryStore } from "../stores/memory.ts";
import type { Message } from "./broker.ts";
import { createInbox, type InboxOptions } from "./inbox.ts";

describe("a message", () => {
  test("runs once, however often and under whichever spelling it comes, and costs one transaction", async () => {
    const { consume, rows, inbox, calls } = setUp(ship);
    expect(await consume(message(1))).toEqual({ settle: "ack", because: "executed" });
    expect(calls).toEqual(["open", "commit"]);
    const respelled = message(1, { body: Buffer.from('{ "order": 1.0 }'), redelivered: true });
    expect(await consume(again(message(1)))).toEqual({ settle: "ack", because: "duplicate" });
    expect(await consume(respelled)).toEqual({ settle: "ack", because: "duplicate" });
    expect(rows()).toHaveLength(1);
    const nothing = { accepted: 0, givenBack: 0, dead: 0 };
    expect(inbox.counts()).toEqual({ ...nothing, received: 3, executed: 1, duplicates: 2 });
  });

  test("of another tenant or another name is another one", async () => {
    const { consume, rows } = setUp(ship, { tenant: ({ headers }) => String(headers.tenant) });
    for (const tenant of ["a", "b"]) await consume(message(1, { headers: { tenant } }));
    await consume(message(1, { headers: { tenant: "a" }, id: "another" }));
    expect(rows()).toHaveLength(3);
  });

  test("may be named by what it says", async () => {
    const { consume, rows } = setUp(ship, { key: ({ headers }) => String(headers.name) });
    for (const id of ["x", "y", null]) await consume(message(1, { id, headers: { name: "same" } }));
    expect(rows()).toHaveLength(1);
  });

  test("runs as new once its key is forgotten", async () => {
    const { consume, rows, ports } = setUp(ship);
    await consume(message(1));
    await ports.clock.advance(24 * 60 * 60 * 1000 + 1);
    expect(await consume(again(message(1)))).toEqual({ settle: "ack", because: "executed" });
    expect(rows()).toHaveLength(2);
  });
});

describe("a dead letter at once is", () => {
  const cases: readonly [string, Partial<Message>, Partial<InboxOptions<{ order: number }>>][] = [
    ["missing-id", { id: null }, {}],
    ["missing-id", { id: "" }, {}],
    ["invalid-id", { id: "x".repeat(256) }, {}],
    ["invalid-id", { id: "a\0b" }, {}],
    ["invalid-id", { id: "undefined" }, {}],
    ["invalid-id", {}, { key: () => "[object Object]" }],
    ["tenant-missing", {}, { tenant: () => "Bearer token" }],
    ["undecodable", { body: Buffer.from("{") }, {}],
    ["undecodable", { body: Buffer.from([0xff, 0xfe]) }, {}],
    ["undecodable", {}, { decode: () => JSON.parse("no") }],
    ["tenant-missing", {}, { tenant: () => "" }],
    [
      "tenant-missing",
      {},
      {
        tenant: () => {
          throw new Error("who?");
        },
      },
    ],
  ];
  test.each(cases)("%s", async (because, change, options) => {
    const { consume, dead, rows, events } = setUp(ship, options);
    const body = change.body ?? message(1).body;
    expect(await consume(message(1, change))).toEqual({ settle: "dead", because });
    expect(await consume(again(message(1, change)))).toMatchObject({ settle: "dead" });
    const letters = await dead();
    expect(letters).toMatchObject([{ reason: because, source: "orders", operation: "shipments.create" }]);
    expect(Buffer.from(letters[0]?.payload ?? []).equals(Buffer.from(body))).toBe(true);
    expect(rows()).toEqual([]);
    expect(events).toContainEqual(
      expect.objectContaining({ type: "message_dead", because, source: "orders" }),
    );
  });

  test("key misuse, which changes nothing about the first one", async () => {
    const { consume, dead, rows } = setUp(ship);
    await consume(message(1));
    const other = message(2, { id: "order-1" });
    expect(await consume(other)).toEqual({ settle: "dead", because: "key-misuse" });
    expect(await consume(again(message(1)))).toEqual({ settle: "ack", because: "duplicate" });
    expect(rows()).toMatchObject([{ order: 1 }]);
    expect(await dead()).toMatchObject([{ reason: "key-misuse", key: "order-1", tenant: "shop" }]);
  });

  test("what its handler refuses, and nothing of it stays", async () => {
    const { consume, dead, rows } = setUp(async (context) => {
      await ship(context);
      throw new MessageRefused({ message: "no such product" });
    });
    expect(await consume(message(1))).toEqual({ settle: "dead", because: "refused" });
    expect([rows(), (await dead()).length]).toEqual([[], 1]);
  });
});

describe("a handler that fails", () => {
  test.each([
    [0, [500, 1_000, 1_500]],
    [1, [1_000, 2_000, 3_000]],
  ])("is tried again after pauses with jitter, also at backoffMaxMs (%d)", async (fraction, pauses) => {
    const fails = async () => Promise.reject(new Error("not now"));
    const world = shared(manualPorts({ fraction: () => fraction }));
    const { consume } = setUp(fails, { backoffMs: 1_000, backoffMaxMs: 3_000 }, world);
    for (const afterMs of pauses) {
      expect(await consume(again(message(1)))).toMatchObject({ settle: "give_back", afterMs });
    }
  });

  test("rolls back, is tried again with growing pauses, and goes through", async () => {
    let failing = 2;
    const { consume, rows, events, memory, ports } = setUp(async (context) => {
      await ship(context);
      if (failing-- > 0) throw new Error("not now");
    });
    expect(await consume(message(1))).toEqual({
      settle: "give_back",
      because: "handler-failed",
      afterMs: 750,
    });
    expect(await consume(again(message(1)))).toMatchObject({ settle: "give_back", afterMs: 1_500 });
    expect(rows()).toEqual([]);
    expect(await consume(again(message(1)))).toEqual({ settle: "ack", because: "executed" });
    expect(rows()).toHaveLength(1);
    const failures = events.flatMap((event) => (event.type === "message_failed" ? [event.failures] : []));
    expect(failures).toEqual([1, 2]);
    await ports.clock.advance(1);
    expect(await memory.clean(10)).toMatchObject({ messages: 0 });
  });

  test("for the last time makes a dead letter, and its message is not run again", async () => {
    let runs = 0;
    const { consume, dead } = setUp(
      async () => {
        runs += 1;
        throw new TypeError("never");
      },
      { failuresMax: 3 },
    );
    const verdicts = [await consume(message(1))];
    for (let more = 0; more < 3; more++) verdicts.push(await consume(again(message(1))));
    expect(verdicts.map(({ settle }) => settle)).toEqual(["give_back", "give_back", "dead", "dead"]);
    expect(verdicts.map(({ because }) => because)).toEqual([
      "handler-failed",
      "handler-failed",
      "failed",
      "dead-already",
    ]);
    expect(runs).toBe(3);
    expect(await dead()).toMatchObject([{ reason: "failed", failures: 3, lastErrorCode: "handler-threw" }]);
  });
});

describe("a message that is running elsewhere", () => {
  test("is held and admitted again by timer, and is a duplicate when the first one has committed", async () => {
    const gate = Promise.withResolvers<void>();
    const world = shared();
    const first = setUp(
      async (context) => {
        await ship(context);
        await gate.promise;
      },
      {},
      world,
    );
    const running = first.inbox.consume(message(1));
    const second = setUp(ship, {}, world);
    const held = second.inbox.consume(again(message(1)));
    await world.ports.clock.advance(2_000);
    expect(second.inbox.counts()).toMatchObject({ received: 1, duplicates: 0, givenBack: 0 });
    gate.resolve();
    await running;
    await world.ports.clock.advance(2_000);
    expect(await held).toEqual({ settle: "ack", because: "duplicate" });
    expect(second.rows()).toHaveLength(1);
  });

  test("is given back after a while, and at once when the consumer stops", async () => {
    const world = shared();
    const first = setUp(() => new Promise(() => {}), {}, world);
    void first.inbox.consume(message(1));
    await world.ports.clock.advance(1);
    const second = setUp(ship, { holdMs: 3_000 }, world);
    const tries = () => second.calls.filter((port) => port === "open").length;
    expect(await second.consume(again(message(1)))).toMatchObject({
      settle: "give_back",
      because: "in-progress",
    });
    expect(tries()).toBeGreaterThan(2);
    expect(tries()).toBeLessThan(10);
    const held = second.inbox.consume(again(message(1)));
    await world.ports.clock.advance(100);
    second.inbox.close();
    expect(await held).toEqual({ settle: "give_back", because: "stopping", afterMs: 0 });
  });
});

describe("a store that cannot be used", () => {
  test("holds the message without running it, until the store is back", async () => {
    let runs = 0;
    const { consume, fail, inbox, ports, rows } = setUp(async (context) => {
      runs += 1;
      await ship(context);
    });
    fail(true);
    expect(await consume(message(1))).toMatchObject({ settle: "give_back", because: "store-unavailable" });
    const held = inbox.consume(message(2));
    await ports.clock.advance(3_000);
    expect(runs).toBe(0);
    fail(false);
    await ports.clock.advance(3_000);
    expect(await held).toEqual({ settle: "ack", because: "executed" });
    expect([runs, rows().length]).toEqual([1, 1]);
  });

  test("an outage between a run and its return is no death of the process", async () => {
    let outages = 3;
    const { inbox, fail, dead, ports, rows } = setUp(async (context) => {
      await ship(context);
      if (outages-- > 0) fail(true);
    });
    const held = inbox.consume(again(message(1)));
    for (let step = 0; step < 150; step++) {
      await ports.clock.advance(100);
      fail(false);
    }
    expect(await held).toEqual({ settle: "ack", because: "executed" });
    expect([outages, rows().length, (await dead()).length]).toEqual([-1, 1, 0]);
  });

  test("a dead letter that cannot be written is no dead letter", async () => {
    const { consume, fail, dead } = setUp(ship);
    fail(true);
    expect(await consume(message(1, { id: null }))).toMatchObject({ settle: "give_back" });
    fail(false);
    expect(await consume(message(1, { id: null, redelivered: true }))).toMatchObject({ settle: "dead" });
    expect(await dead()).toHaveLength(1);
  });
});

describe("a message that kills its process", () => {
  test("is a dead letter after the third death that was counted", async () => {
    const world = shared();
    await killed(world, message(1));
    for (let death = 1; death <= 3; death++) await killed(world, again(message(1)));
    const { consume, dead, rows } = setUp(ship, {}, world);
    expect(await consume(again(message(1)))).toEqual({ settle: "dead", because: "kills-its-process" });
    expect(await dead()).toMatchObject([{ reason: "kills-its-process", starts: 3, returns: 0 }]);
    expect(rows()).toEqual([]);
  });

  test("is not condemned while its last attempt runs elsewhere", async () => {
    const world = shared();
    for (let death = 1; death <= 2; death++) await killed(world, again(message(1)));
    const gate = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const elsewhere = setUp(
      async (context) => {
        await ship(context);
        begun.resolve();
        await gate.promise;
      },
      {},
      world,
    );
    const running = elsewhere.inbox.consume(again(message(1)));
    await begun.promise;
    const { inbox, dead, rows } = setUp(ship, {}, world);
    const held = inbox.consume(again(message(1)));
    await world.ports.clock.advance(5_000);
    expect(await dead()).toEqual([]);
    gate.resolve();
    expect(await running).toEqual({ settle: "ack", because: "executed" });
    await world.ports.clock.advance(5_000);
    expect(await held).toEqual({ settle: "ack", because: "duplicate" });
    expect(rows()).toHaveLength(1);
  });

  test("after fewer deaths runs again, and what is known about it is forgotten", async () => {
    const world = shared();
    await killed(world, message(1));
    await killed(world, again(message(1)));
    const { consume, dead, memory, ports } = setUp(ship, {}, world);
    expect(await consume(again(message(1)))).toEqual({ settle: "ack", because: "executed" });
    expect(await dead()).toEqual([]);
    await ports.clock.advance(31 * 24 * 60 * 60 * 1000);
    expect(await memory.clean(10)).toMatchObject({ messages: 0 });
  });

  test("takes no neighbour with it: what may have killed runs alone among its like", async () => {
    const world = shared();
    const names = [1, 2, 3];
    await Promise.all(names.map((order) => killed(world, again(message(order)))));
    let [running, most] = [0, 0];
    const { inbox, ports } = setUp(
      async ({ tx, input }) => {
        running += 1;
        most = Math.max(most, running);
        await tx.insert("shipments", input);
        running -= 1;
      },
      {},
      world,
    );
    const all = Promise.all(names.map((order) => inbox.consume(again(message(order)))));
    await ports.clock.advance(5_000);
    expect((await all).map(({ settle }) => settle)).toEqual(["ack", "ack", "ack"]);
    expect(most).toBe(1);
  });

  test("is not taken along by others: nothing else runs while it does", async () => {
    const world = shared();
    await killed(world, again(message(1)));
    const gate = Promise.withResolvers<void>();
    const running: number[] = [];
    const seen: string[] = [];
    const { inbox, ports } = setUp(
      async ({ tx, input: { order } }) => {
        running.push(order);
        seen.push(running.join("+"));
        await tx.insert("shipments", { order });
        if (order === 2) await gate.promise;
        await Promise.resolve();
        running.splice(running.indexOf(order), 1);
      },
      {},
      world,
    );
    const fresh = inbox.consume(message(2));
    await ports.clock.advance(10);
    const suspect = inbox.consume(again(message(1)));
    await ports.clock.advance(10);
    const later = [inbox.consume(message(3)), inbox.consume(again(message(4)))];
    await ports.clock.advance(10);
    expect(seen, "it waits for what runs, and what comes waits for it").toEqual(["2"]);
    gate.resolve();
    await ports.clock.advance(5_000);
    for (const verdict of await Promise.all([fresh, suspect, ...later])) expect(verdict.settle).toBe("ack");
    expect(seen[1]).toBe("1");
  });

  test("that has committed before the last death is a duplicate", async () => {
    const world = shared();
    await setUp(ship, {}, world).consume(message(1));
    for (let death = 0; death < 3; death++) {
      const dying = setUp(ship, {}, world, {
        fault: ({ port }) => (port === "countMessage" ? "crash_after" : "proceed"),
      });
      void dying.inbox.consume(again(message(1)));
      await world.ports.clock.advance(100);
    }
    const { consume, calls } = setUp(ship, {}, world);
    expect(await consume(again(message(1)))).toEqual({ settle: "ack", because: "duplicate" });
    expect(calls, "it was under suspicion").toContain("read");
  });
});

describe("construction", () => {
  const latchkey = createLatchkey({ store: memoryStore() });
  const operation = latchkey.operation("op");

  test("refuses what is out of range or does not fit", () => {
    const handler = async () => {};
    const make = (options: object) =>
      createInbox(latchkey, operation, options as InboxOptions<unknown>, handler);
    expect(() => make({})).toThrow(TypeError);
    expect(() => make({ tenant: "" })).toThrow(TypeError);
    expect(() => make({ tenant: "Bearer token" })).toThrow(TypeError);
    for (const field of ["failuresMax", "killsMax", "holdMs", "backoffMs", "backoffMaxMs", "keepMs"]) {
      for (const value of [0, -1, 1.5, Number.NaN]) {
        expect(() => make({ tenant: "t", [field]: value }), field).toThrow(TypeError);
      }
    }
    expect(() => make({ tenant: "t", key: "id" })).toThrow(TypeError);
    const other = createLatchkey({ store: memoryStore() });
    expect(() => createInbox(other, operation, { tenant: "t" }, handler)).toThrow(TypeError);
    expect(() => createInbox(latchkey, operation, { tenant: "t" }, undefined as never)).toThrow(TypeError);
    const open = latchkey.operation("open", { execution: "lease", onStoreFailure: "run-unprotected" });
    expect(() => createInbox(latchkey, open, { tenant: "t" }, async () => {})).toThrow("run unprotected");
    const byPath = latchkey.operation("by-path", { keyScope: "path" });
    expect(() => createInbox(latchkey, byPath, { tenant: "t" }, async () => {})).toThrow(
      'set keyScope to "operation"',
    );
    const without = createLatchkey({ store: { ...memoryStore(), messages: null } });
    expect(() => createInbox(without, without.operation("op"), { tenant: "t" }, handler)).toThrow(TypeError);
  });
});
