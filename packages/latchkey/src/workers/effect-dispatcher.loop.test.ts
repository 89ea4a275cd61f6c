/** The dispatcher's loop: several dispatchers, order, waking, stopping, and a store that fails. */
import { describe, expect, test } from "vitest";
import { deliveryWorld, type ProcessOptions } from "../../../../test/support/delivery-world.ts";
import { gated, several } from "../../../../test/support/dispatching.ts";

const never = 1_000_000;

describe("several dispatchers", () => {
  test("never send each other's claimed effects", async () => {
    const world = await several("none", 50);
    const dispatchers = [1, 2, 3, 4].map(() => world.start({ dispatcher: { batchSize: 7 } }).dispatcher);
    for (const dispatcher of dispatchers) dispatcher.start();
    await world.ports.clock.advance(0);
    expect(await world.inState("delivered")).toHaveLength(50);
    expect(world.ledger.charges).toHaveLength(50);
    for (const dispatcher of dispatchers) await dispatcher.stop();
  });

  test("free claims of dead dispatchers page by page, however many there are", async () => {
    const world = await several("provider", 25);
    const dead = world.start({ send: () => "crash_before" });
    void dead.dispatcher.runOnce();
    await world.ports.clock.advance(0);
    await world.ports.clock.advance(11_000);
    const { dispatcher } = world.start({ dispatcher: { batchSize: 10 } });
    dispatcher.start();
    await world.ports.clock.advance(5_000);
    expect(await world.inState("delivered")).toHaveLength(25);
    await dispatcher.stop();
  });
});

describe("order", () => {
  const ordered = { delivery: { ordered: true } };

  test("effects of an aggregate are sent one after the other by any dispatcher, even after failures; others do not wait", async () => {
    const world = deliveryWorld("provider");
    const start = (options: ProcessOptions = {}) =>
      world.start({ ...options, effect: { ...ordered, ...options.effect } });
    for (let amount = 1; amount <= 6; amount++) {
      await world.enqueueOrdered(amount, "a");
      await world.enqueueOrdered(amount + 10, "b");
    }
    let sends = 0;
    const fails = () => (["proceed", "lost_before", "lost_after"] as const)[++sends % 3] ?? "proceed";
    const dispatchers = [1, 2, 3].map(() => start({ send: fails, dispatcher: { batchSize: 4 } }).dispatcher);
    for (const dispatcher of dispatchers) dispatcher.start();
    await world.ports.clock.advance(120_000);
    for (const dispatcher of dispatchers) await dispatcher.stop();
    expect(await world.open()).toEqual([]);
    const amounts = world.ledger.charges.map(({ charge }) => charge.amount);
    expect(amounts.filter((amount) => amount < 10)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(amounts.filter((amount) => amount > 10)).toEqual([11, 12, 13, 14, 15, 16]);
  });

  test("the next effect of an aggregate does not wait for the next look", async () => {
    const world = deliveryWorld("provider");
    for (let amount = 1; amount <= 5; amount++) await world.enqueueOrdered(amount, "a");
    const { dispatcher } = world.start({ effect: ordered, dispatcher: { intervalMs: never } });
    dispatcher.start();
    await world.ports.clock.advance(0);
    expect(world.ledger.charges).toHaveLength(5);
    await dispatcher.stop();
  });

  test("a dead effect blocks only later effects of its aggregate", async () => {
    const world = deliveryWorld("none");
    await world.enqueueOrdered(1, "a");
    await world.enqueueOrdered(2, "a");
    await world.enqueueOrdered(3, "b");
    const faults = ["lost_before"] as const;
    let sends = 0;
    const { dispatcher } = world.start({ effect: ordered, send: () => faults[sends++] ?? "proceed" });
    dispatcher.start();
    await world.ports.clock.advance(60_000);
    await dispatcher.stop();
    expect(world.ledger.charges.map(({ charge }) => charge.amount)).toEqual([3]);
    expect(await world.inState("pending")).toHaveLength(1);
  });
});

describe("waking", () => {
  test("without hints it looks at its interval", async () => {
    const world = deliveryWorld("provider");
    const { dispatcher } = world.start({
      dispatcher: { intervalMs: 1_000 },
      plan: ({ port }) => (port === "receiveHint" ? "crash_before" : "proceed"),
    });
    void dispatcher;
    const deaf = world.start({
      dispatcher: { intervalMs: 1_000 },
      plan: ({ port }) => (port === "listenToHints" ? "not_sent" : "proceed"),
    });
    deaf.dispatcher.start();
    await world.ports.clock.advance(0);
    await world.enqueue(5);
    await world.ports.clock.advance(900);
    expect(world.ledger.charges).toHaveLength(0);
    await world.ports.clock.advance(300);
    expect(world.ledger.charges).toHaveLength(1);
    await deaf.dispatcher.stop();
  });

  test("it looks at once when another process commits", async () => {
    const world = deliveryWorld("provider");
    const { dispatcher } = world.start({ dispatcher: { intervalMs: never } });
    dispatcher.start();
    await world.ports.clock.advance(0);
    await world.enqueue(5);
    await world.ports.clock.advance(0);
    expect(world.ledger.charges).toHaveLength(1);
    await dispatcher.stop();
    await world.enqueue(6);
    await world.ports.clock.advance(0);
    expect(world.ledger.charges).toHaveLength(1);
  });

  test("it retries a subscription to hints that fails", async () => {
    const world = deliveryWorld("provider");
    let refused = 0;
    const plan = ({ port }: { readonly port: string }) =>
      port === "listenToHints" && refused++ < 1 ? "not_sent" : "proceed";
    const { dispatcher } = world.start({ plan, dispatcher: { intervalMs: never } });
    dispatcher.start();
    await world.ports.clock.advance(10_000);
    await world.enqueue(5);
    await world.ports.clock.advance(0);
    expect(world.ledger.charges).toHaveLength(1);
    await dispatcher.stop();
  });

  test("hints do not turn an error into a busy loop", async () => {
    const world = deliveryWorld("provider");
    let claims = 0;
    const plan = ({ port }: { readonly port: string }) => {
      if (port === "claimEffects") claims += 1;
      return port === "claimEffects" ? "not_sent" : "proceed";
    };
    const { dispatcher } = world.start({ plan, dispatcher: { intervalMs: 1_000 } });
    dispatcher.start();
    for (let order = 0; order < 20; order++) await world.enqueue(order);
    await world.ports.clock.advance(0);
    expect(claims).toBeLessThan(3);
    await dispatcher.stop();
  });
});

describe("stopping", () => {
  test("waits for running sends and writes their ends", async () => {
    const world = await several("none", 2);
    const { dispatcher, endNext } = gated(world);
    dispatcher.start();
    await world.ports.clock.advance(0);
    let stopped = false;
    const stop = dispatcher.stop().then(() => {
      stopped = true;
    });
    await endNext();
    expect(stopped).toBe(false);
    await endNext();
    await stop;
    expect(await world.inState("delivered")).toHaveLength(2);
  });

  test.each([
    ["none", "claimed"],
    ["provider", "started"],
  ] as const)("%s: effects %s meanwhile are released without a send", async (kind, state) => {
    const world = await several(kind, 3);
    const reply = Promise.withResolvers<void>();
    const plan = ({ port }: { readonly port: string }) =>
      port === "claimEffects" ? ({ kind: "reply", until: reply.promise } as const) : "proceed";
    const { dispatcher } = world.start({ plan });
    dispatcher.start();
    await world.ports.clock.advance(0);
    expect(await world.inState(state)).toHaveLength(3);
    const stop = dispatcher.stop();
    reply.resolve();
    await stop;
    const pending = await world.inState("pending");
    expect(pending).toHaveLength(3);
    for (const effect of pending) expect(effect).toMatchObject({ sends: 0, doubtfulSince: null });
    expect(world.ledger.requests).toHaveLength(0);
    expect(await world.start().dispatcher.runOnce()).toMatchObject({ delivered: 3 });
  });

  test("it can be started again", async () => {
    const world = await several("none", 1);
    const { dispatcher } = world.start();
    dispatcher.start();
    await world.ports.clock.advance(0);
    await dispatcher.stop();
    await world.enqueue(9);
    dispatcher.start();
    await world.ports.clock.advance(0);
    await dispatcher.stop();
    expect(world.ledger.charges).toHaveLength(2);
  });
});

describe("a store that fails", () => {
  test("during sends, then recovers: every send's end is written, and nothing is sent again", async () => {
    const world = await several("none", 10);
    let down = false;
    const plan = () => (down ? "not_sent" : "proceed");
    const { dispatcher, waiting } = gated(world, { plan });
    dispatcher.start();
    await world.ports.clock.advance(0);
    down = true;
    for (const { end } of waiting) end();
    await world.ports.clock.advance(8_000);
    expect(await world.inState("started")).toHaveLength(10);
    down = false;
    await world.ports.clock.advance(2_000);
    expect(await world.inState("delivered")).toHaveLength(10);
    expect(world.ledger.requests).toHaveLength(10);
    await dispatcher.stop();
  });

  test("for longer than the leases: sends in doubt are handled by the effect's deduplication", async () => {
    const world = await several("provider", 5);
    let failing = true;
    const plan = ({ port }: { readonly port: string }) =>
      failing && port === "endEffects" ? "not_sent" : "proceed";
    const { dispatcher } = world.start({ plan });
    dispatcher.start();
    await world.ports.clock.advance(15_000);
    expect(world.ledger.requests.length).toBeGreaterThan(5);
    failing = false;
    await world.ports.clock.advance(15_000);
    await dispatcher.stop();
    expect(await world.inState("delivered")).toHaveLength(5);
    expect(world.ledger.charges).toHaveLength(5);
  });
});
