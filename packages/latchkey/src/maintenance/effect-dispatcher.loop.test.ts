/** The dispatcher's loop: several of them, its limits and its order, what wakes it, and how it stops. */
import { describe, expect, test } from "vitest";
import {
  type DeliveryWorld,
  deliveryWorld,
  type ProcessOptions,
} from "../../../../test/support/delivery-world.ts";
import { StoreError } from "../errors.ts";

const never = 1_000_000;

/** Sends that end when they are told to. */
function gated(world: DeliveryWorld, options: ProcessOptions = {}) {
  const waiting: { readonly amount: number; readonly end: () => void }[] = [];
  const execute = async ({ amount }: { readonly amount: number }, { key }: { readonly key: string }) => {
    await new Promise<void>((resolve) => waiting.push({ amount, end: resolve }));
    return world.ledger.charge(key, { amount });
  };
  const limits = { timeoutMs: 60_000, ...options.effect?.limits };
  const process = world.start({ ...options, effect: { ...options.effect, execute, limits } });
  const endNext = async () => {
    waiting.shift()?.end();
    await world.ports.clock.advance(0);
  };
  return { ...process, waiting, endNext };
}

async function several(kind: Parameters<typeof deliveryWorld>[0], count: number) {
  const world = deliveryWorld(kind);
  for (let amount = 1; amount <= count; amount++) await world.enqueue(amount);
  return world;
}

describe("several dispatchers", () => {
  test("none of what one has is sent by another", async () => {
    const world = await several("none", 50);
    const dispatchers = [1, 2, 3, 4].map(() => world.start({ dispatcher: { batchSize: 7 } }).dispatcher);
    for (const dispatcher of dispatchers) dispatcher.start();
    await world.ports.clock.advance(0);
    expect(await world.inState("delivered")).toHaveLength(50);
    expect(world.ledger.charges).toHaveLength(50);
    for (const dispatcher of dispatchers) await dispatcher.stop();
  });

  test("dead ones' claims are freed page by page, however many there are", async () => {
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

  test("of an aggregate one after the other, whoever delivers and however often a send fails; others do not wait", async () => {
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

  test("the next of an aggregate does not wait for the next look", async () => {
    const world = deliveryWorld("provider");
    for (let amount = 1; amount <= 5; amount++) await world.enqueueOrdered(amount, "a");
    const { dispatcher } = world.start({ effect: ordered, dispatcher: { intervalMs: never } });
    dispatcher.start();
    await world.ports.clock.advance(0);
    expect(world.ledger.charges).toHaveLength(5);
    await dispatcher.stop();
  });

  test("a dead one holds up those behind it, of its aggregate alone", async () => {
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

describe("limits", () => {
  test("no more under way than the effect's concurrency, and nothing is claimed that would wait for it", async () => {
    const world = await several("none", 5);
    const { dispatcher, waiting, endNext } = gated(world, {
      effect: { limits: { concurrency: 2 } },
      dispatcher: { intervalMs: never },
    });
    dispatcher.start();
    await world.ports.clock.advance(0);
    expect(waiting).toHaveLength(2);
    expect(await world.inState("pending")).toHaveLength(3);
    await endNext();
    expect(waiting).toHaveLength(2);
    for (let left = 0; left < 4; left++) await endNext();
    expect(await world.inState("delivered")).toHaveLength(5);
    await dispatcher.stop();
  });

  test("no more under way than the dispatcher's size", async () => {
    const world = await several("none", 5);
    const { dispatcher, waiting, endNext } = gated(world, {
      dispatcher: { batchSize: 3, intervalMs: never },
    });
    dispatcher.start();
    await world.ports.clock.advance(0);
    expect(waiting).toHaveLength(3);
    await endNext();
    expect(waiting).toHaveLength(3);
    const stop = dispatcher.stop();
    for (let left = 0; left < 3; left++) await endNext();
    await stop;
    expect(await world.inState("pending")).toHaveLength(1);
  });

  const onDelivered = async () => {};
  test.each<{ kind: "provider" | "none"; effect: ProcessOptions["effect"]; sends: number; why: string }>([
    { kind: "provider", effect: {}, sends: 8, why: "as many again as fit" },
    { kind: "provider", effect: { onDelivered }, sends: 4, why: "what has more to do keeps its place" },
    { kind: "none", effect: {}, sends: 4, why: "no more may be left in doubt" },
  ])("while no end is written, $sends sends with $kind: $why", async ({ kind, effect = {}, sends }) => {
    const world = await several(kind, 12);
    const thaw = Promise.withResolvers<void>();
    const { dispatcher } = world.start({
      plan: ({ port }) => (port === "endEffects" ? thaw.promise.then(() => "proceed") : "proceed"),
      effect,
      dispatcher: { batchSize: 4, intervalMs: never },
    });
    dispatcher.start();
    await world.ports.clock.advance(0);
    expect(world.ledger.requests).toHaveLength(sends);
    thaw.resolve();
    await world.ports.clock.advance(0);
    expect(await world.inState("delivered")).toHaveLength(12);
    await dispatcher.stop();
  });

  test("room that comes free bit by bit is not claimed bit by bit", async () => {
    const world = await several("none", 24);
    let claims = 0;
    const { dispatcher, waiting, endNext } = gated(world, {
      plan: ({ port }) => {
        if (port === "claimEffects") claims += 1;
        return "proceed";
      },
      dispatcher: { batchSize: 8, intervalMs: never },
    });
    dispatcher.start();
    await world.ports.clock.advance(0);
    expect(waiting).toHaveLength(8);
    claims = 0;
    await endNext();
    expect([waiting.length, claims]).toEqual([7, 0]);
    await endNext();
    expect([waiting.length, claims]).toEqual([8, 1]);
    const stop = dispatcher.stop();
    for (let left = 0; left < 8; left++) await endNext();
    await stop;
  });

  test("no more begun in any second than the effect's rate, and as many", async () => {
    const world = await several("none", 25);
    const begun: number[] = [];
    const send = () => {
      begun.push(world.ports.clock.monotonicMs());
      return "proceed" as const;
    };
    const start = () =>
      world.start({ send, effect: { limits: { perSecond: 10 } }, dispatcher: { intervalMs: never } })
        .dispatcher;
    const dispatcher = start();
    dispatcher.start();
    await world.ports.clock.advance(2_500);
    await dispatcher.stop();
    expect(begun).toHaveLength(25);
    for (const [at, time] of begun.entries()) {
      const tenth = begun[at + 10];
      if (tenth !== undefined) expect(tenth - time).toBeGreaterThanOrEqual(1_000);
    }
  });

  test("an effect whose other side hangs leaves room for the others", async () => {
    const world = await several("none", 40);
    const { dispatcher, latchkey, waiting } = gated(world, { dispatcher: { batchSize: 10 } });
    let quick = 0;
    const fast = latchkey.effect("fast", {
      deduplication: "none",
      execute: async () => {
        quick += 1;
      },
    });
    dispatcher.start();
    await world.ports.clock.advance(5_000);
    expect(waiting.length).toBeLessThan(10);
    const operation = latchkey.operation("greet");
    for (let index = 0; index < 20; index++) {
      const request = { tenant: "t", key: `g${index}`, input: index };
      await latchkey.run(operation, request, async ({ attempt }) => {
        attempt.enqueue(fast, null);
      });
    }
    await world.ports.clock.advance(1_500);
    expect(quick).toBe(20);
    for (const { end } of waiting) end();
    const stop = dispatcher.stop();
    await world.ports.clock.advance(0);
    await stop;
  });
});

describe("waking", () => {
  test("it looks at its interval, where nothing tells it", async () => {
    const world = deliveryWorld("provider");
    const { dispatcher } = world.start({
      dispatcher: { intervalMs: 1_000 },
      plan: ({ port }) => (port === "hearHint" ? "crash_before" : "proceed"),
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

  test("it looks at once when another process has committed", async () => {
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

  test("a store that cannot be listened to is asked again", async () => {
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

  test("an error is not made a busy loop by hints", async () => {
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
  test("waits for sends under way and writes how they ended", async () => {
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
  ] as const)("%s: what is %s meanwhile is given back, and no send is made", async (kind, state) => {
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
  test("in the middle, and is back: every send's end is written, nothing is sent again", async () => {
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

  test("for longer than the leases: what was sent is looked into by its kind", async () => {
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

describe("poison", () => {
  test("a row that cannot be written costs itself alone", async () => {
    const world = await several("none", 20);
    const [poison] = await world.open();
    const { latchkey, charge } = world.start();
    const outbox = {
      ...world.outbox,
      end: async (ends: Parameters<typeof world.outbox.end>[0]) => {
        if (ends.some(({ id }) => id === poison?.id))
          throw new StoreError("rolled_back", { message: "22P05" });
        return world.outbox.end(ends);
      },
    };
    void latchkey;
    void charge;
    const { dispatcher } = world.start({ wrap: (store) => ({ ...store, outbox }) });
    const round = dispatcher.runOnce();
    await world.ports.clock.advance(20_000);
    expect(await round).toMatchObject({ delivered: 19, left: 1 });
  });

  test("a row that makes the claim fail holds up only what is behind it", async () => {
    const world = await several("none", 20);
    const poison = (await world.open())[12]?.id;
    const outbox = {
      ...world.outbox,
      claim: async (...args: Parameters<typeof world.outbox.claim>) => {
        const due = await world.inState("pending");
        const [want] = args[0];
        const page = due.slice(0, want?.limit).map(({ id }) => id);
        if (poison !== undefined && page.includes(poison))
          throw new StoreError("rolled_back", { message: "23505" });
        return world.outbox.claim(...args);
      },
    };
    const { dispatcher } = world.start({ wrap: (store) => ({ ...store, outbox }) });
    for (let round = 0; round < 6; round++) await dispatcher.runOnce();
    expect(await world.inState("delivered")).toHaveLength(12);
    expect(world.events).toContainEqual(
      expect.objectContaining({ type: "service_error", service: "effect-dispatcher" }),
    );
  });

  test("an input that does not decode is tried again, and at last left to a person; one that is not JSON is at once", async () => {
    const world = await several("none", 3);
    const [first, second] = await world.open();
    const codec = {
      encode: (plain: Uint8Array) => plain,
      decode: (stored: Uint8Array, { part }: { readonly part: string }) => {
        if (part === `effect-input:charge:${first?.id}`) throw new Error("no such key");
        return part === `effect-input:charge:${second?.id}` ? Buffer.from("{") : stored;
      },
    };
    const { dispatcher } = world.start({ codec, effect: { delivery: { attemptsMax: 3 } } });
    expect(await dispatcher.runOnce()).toMatchObject({ claimed: 3, delivered: 1, retried: 1, dead: 1 });
    for (let round = 0; round < 3; round++) {
      await world.ports.clock.advance(5_000);
      await dispatcher.runOnce();
    }
    const dead = await world.inState("dead");
    expect(dead.map(({ id, lastErrorCode, sends }) => ({ id, lastErrorCode, sends }))).toEqual([
      { id: first?.id, lastErrorCode: "input-not-readable", sends: 0 },
      { id: second?.id, lastErrorCode: "input-not-readable", sends: 0 },
    ]);
  });

  test("a result that has no JSON form is a dead letter that says so: it has happened", async () => {
    const world = await several("provider", 1);
    const execute = async () => ({ id: 1n, amount: 5 }) as never;
    const { dispatcher } = world.start({ effect: { execute } });
    expect(await dispatcher.runOnce()).toMatchObject({ dead: 1 });
    expect(await world.inState("dead")).toMatchObject([{ lastErrorCode: "result-not-stored", returns: 1 }]);
  });
});
