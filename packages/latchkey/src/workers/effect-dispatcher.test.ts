import { describe, expect, test } from "vitest";
import { deliveryWorld, type ProcessOptions } from "../../../../test/support/delivery-world.ts";
import type { EffectKind, SendFault } from "../../../../test/support/downstream-ledger.ts";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import { createLatchkey } from "../latchkey.ts";
import { pause } from "../ports.ts";
import { memoryStore } from "../stores/memory.ts";
import type { StoreCall } from "../testing/faulty-store/fault.ts";
import { effectDispatcher } from "./effect-dispatcher.ts";

const kinds: readonly EffectKind[] = ["provider", "lookup", "close", "reopen", "none"];
/** The lease of a claim or a start: twice the effect's time limit, plus the time to write. */
const leaseMs = 11_000;

/** Sends with the given results, then successful ones. */
const sends = (...faults: SendFault[]) => ({ send: () => faults.shift() ?? "proceed" });

/** One enqueued charge and a process that delivers it. */
async function oneCharge(kind: EffectKind, options: ProcessOptions = {}) {
  const world = deliveryWorld(kind);
  await world.enqueue(5);
  const process = world.start(options);
  const effect = async () => {
    const all = [
      ...(await world.open()),
      ...(await world.inState("delivered")),
      ...(await world.inState("dead")),
    ];
    const [only] = all;
    if (only === undefined || all.length > 1) throw new Error(`${all.length} effects`);
    return only;
  };
  /** Runs a round after the given time. */
  const round = async (afterMs = 0) => {
    await world.ports.clock.advance(afterMs);
    return process.dispatcher.runOnce();
  };
  return { ...world, ...process, effect, round };
}

describe("delivery", () => {
  test.each(kinds)(
    "%s: delivered once, with the key that was enqueued, and its result is kept",
    async (kind) => {
      const world = await oneCharge(kind);
      const { downstreamKey } = await world.effect();
      expect(await world.round()).toEqual({
        claimed: 1,
        delivered: 1,
        retried: 0,
        dead: 0,
        left: 0,
        rescued: 0,
      });
      expect(world.ledger.charges).toEqual([{ key: downstreamKey, charge: { id: "ch_1", amount: 5 } }]);
      const effect = await world.effect();
      expect(effect).toMatchObject({ state: "delivered", sends: 1, returns: 1 });
      expect(JSON.parse(Buffer.from(effect.result ?? "").toString())).toEqual({ id: "ch_1", amount: 5 });
      expect(await world.round(1_000)).toMatchObject({ claimed: 0 });
      expect(world.events).toContainEqual(
        expect.objectContaining({
          type: "effect_delivered",
          effect: "charge",
          effectId: effect.id,
          sends: 1,
        }),
      );
      expect(JSON.stringify(world.events)).not.toContain('"k1"');
    },
  );

  test("is not made before it is due", async () => {
    const world = deliveryWorld("provider");
    await world.enqueue(5, { delayMs: 60_000 });
    const { dispatcher } = world.start();
    expect(await dispatcher.runOnce()).toMatchObject({ claimed: 0 });
    await world.ports.clock.advance(60_000);
    expect(await dispatcher.runOnce()).toMatchObject({ delivered: 1 });
  });

  test("leaves effects that are not defined here to other processes", async () => {
    const world = await oneCharge("provider");
    const other = createLatchkey({ store: world.store, ports: world.ports });
    other.effect("other", { deduplication: "none", execute: async () => 1 });
    expect(await effectDispatcher(other).runOnce()).toMatchObject({ claimed: 0, rescued: 0 });
    expect(await world.round()).toMatchObject({ delivered: 1 });
  });

  test("needs an outbox", () => {
    const store = { ...memoryStore(), outbox: null, transactions: null };
    expect(() => effectDispatcher(createLatchkey({ store }))).toThrow("no outbox");
  });
});

describe("a send that proves something", () => {
  test.each(kinds)("%s: refused: it becomes a dead letter and is never sent again", async (kind) => {
    const world = await oneCharge(kind);
    world.ledger.closed.add((await world.effect()).downstreamKey);
    expect(await world.round()).toMatchObject({ dead: 1 });
    expect(await world.effect()).toMatchObject({ state: "dead", lastErrorCode: "effect-refused" });
    expect(await world.round(1e6)).toMatchObject({ claimed: 0 });
    expect(world.events).toContainEqual(
      expect.objectContaining({ type: "effect_dead", errorCode: "effect-refused", sends: 1 }),
    );
  });

  test.each(kinds)("%s: proven not to have happened: it is sent again without a doubt", async (kind) => {
    const isNotExecuted = () => true;
    const world = await oneCharge(kind, { ...sends("lost_before"), effect: { isNotExecuted } });
    expect(await world.round()).toMatchObject({ retried: 1 });
    expect(await world.effect()).toMatchObject({
      state: "pending",
      doubtfulSince: null,
      sends: 1,
      returns: 1,
    });
    expect(await world.round()).toMatchObject({ claimed: 0 });
    expect(await world.round(1_000)).toMatchObject({ delivered: 1 });
    expect(world.ledger.charges).toHaveLength(1);
  });

  test("pauses double, and after the last try it is a dead letter", async () => {
    const effect = { isNotExecuted: () => true, delivery: { attemptsMax: 4, backoffMaxMs: 2_000 } };
    const world = await oneCharge("none", { send: () => "lost_before", effect });
    for (const afterMs of [0, 1_000, 2_000, 2_000, 2_000]) await world.round(afterMs);
    const pauses = world.events.flatMap((event) => (event.type === "effect_retried" ? [event.afterMs] : []));
    expect(pauses).toEqual([750, 1_500, 1_500]);
    expect(await world.effect()).toMatchObject({ state: "dead", sends: 4, lastErrorCode: "attempts-spent" });
  });
});

describe("a send that proves nothing", () => {
  const outcomes = {
    provider: { delivered: true, charges: 1, code: "call-in-doubt" },
    lookup: { delivered: false, charges: 0, code: "call-in-doubt" },
    close: { delivered: false, charges: 0, code: "closed-downstream" },
    reopen: { delivered: true, charges: 1, code: null },
    none: { delivered: false, charges: 0, code: "call-in-doubt" },
  } as const;

  test.each(kinds)("%s: lost on the way", async (kind) => {
    const world = await oneCharge(kind, {
      ...sends("lost_before"),
      effect: { delivery: { attemptsMax: 3 } },
    });
    const first = (await world.effect()).downstreamKey;
    for (let round = 0; round < 5; round++) await world.round(10_000);
    const { delivered, charges } = outcomes[kind];
    expect(world.ledger.charges).toHaveLength(charges);
    const effect = await world.effect();
    expect(effect.state).toBe(delivered ? "delivered" : "dead");
    expect(effect.lastErrorCode).toBe(kind === "reopen" ? "call-in-doubt" : outcomes[kind].code);
    expect(effect.downstreamKey === first).toBe(kind !== "reopen");
    expect(effect.generation).toBe(kind === "reopen" ? 1 : 0);
  });

  test.each(kinds)("%s: it has happened, but the reply is lost", async (kind) => {
    const world = await oneCharge(kind, sends("lost_after"));
    for (let round = 0; round < 4; round++) await world.round(10_000);
    expect(world.ledger.charges).toHaveLength(1);
    expect(await world.effect()).toMatchObject({ state: kind === "none" ? "dead" : "delivered" });
    expect(world.ledger.requests).toHaveLength(kind === "provider" ? 2 : 1);
  });

  test.each(kinds)("%s: it takes too long", async (kind) => {
    const world = await oneCharge(kind, { effect: { execute: () => new Promise(() => {}) } });
    const round = world.dispatcher.runOnce();
    await world.ports.clock.advance(500);
    expect(await round).toMatchObject(kind === "none" ? { dead: 1 } : { retried: 1 });
  });

  test("provider: it is not sent again after its deduplication window", async () => {
    const effect = { dedupeWindowMs: 60_000, delivery: { backoffMs: 30_000 } };
    const world = await oneCharge("provider", { send: () => "lost_after", effect });
    await world.round();
    await world.round(30_000);
    expect(await world.round(45_000)).toMatchObject({ dead: 1 });
    expect(await world.effect()).toMatchObject({ lastErrorCode: "dedupe-window-over", sends: 2 });
    expect(world.ledger.requests).toHaveLength(2);
  });

  test("lookup: a look-up without an answer is repeated", async () => {
    let asked = 0;
    const lookup = async () => {
      asked += 1;
      if (asked === 1) throw new Error("503");
      return { found: { id: "ch_9", amount: 5 } };
    };
    const world = await oneCharge("lookup", { ...sends("lost_after"), effect: { lookup } });
    await world.round();
    expect(await world.round(1_000)).toMatchObject({ retried: 1 });
    expect(await world.round(1_000)).toMatchObject({ delivered: 1 });
    expect(world.ledger.requests).toHaveLength(1);
  });
});

describe("a dispatcher that dies", () => {
  test.each(kinds)("%s: between the send and the finish", async (kind) => {
    const world = await oneCharge(kind, sends("crash_after"));
    void world.dispatcher.runOnce();
    await world.ports.clock.advance(0);
    expect(await world.effect()).toMatchObject({ state: "started" });
    const next = world.start();
    expect(await next.dispatcher.runOnce()).toMatchObject({ claimed: 0, rescued: 0 });
    await world.ports.clock.advance(leaseMs);
    const report = await next.dispatcher.runOnce();
    expect(report).toMatchObject({
      rescued: 1,
      claimed: 1,
      ...(kind === "none" ? { dead: 1 } : { delivered: 1 }),
    });
    expect(world.ledger.charges).toHaveLength(1);
    const keys = new Set(world.ledger.requests.map(({ key }) => key));
    expect(keys.size).toBe(1);
    expect(world.events).toContainEqual({ type: "effects_rescued", unstarted: 0, started: 1 });
  });

  test("before the send: its claims are free again, and nothing is in doubt", async () => {
    const plan = ({ port }: StoreCall) => (port === "startEffects" ? "crash_before" : "proceed");
    const world = await oneCharge("none", { plan });
    void world.dispatcher.runOnce();
    await world.ports.clock.advance(leaseMs);
    expect(await world.start().dispatcher.runOnce()).toMatchObject({ rescued: 1, delivered: 1 });
    expect(world.events).toContainEqual({ type: "effects_rescued", unstarted: 1, started: 0 });
  });

  test("three times in the same send: the effect is left to a person", async () => {
    const world = deliveryWorld("provider");
    await world.enqueue(5);
    for (let process = 0; process < 4; process++) {
      void world.start(sends("crash_before")).dispatcher.runOnce();
      await world.ports.clock.advance(leaseMs);
    }
    expect(await world.inState("dead")).toMatchObject([{ lastErrorCode: "kills-its-process", sends: 3 }]);
  });

  test("and comes back, frozen before its send: it does not send", async () => {
    const thaw = Promise.withResolvers<void>();
    const plan = ({ port }: StoreCall) =>
      port === "startEffects" ? ({ kind: "reply", until: thaw.promise } as const) : "proceed";
    const ports = manualPorts();
    const world = await oneCharge("none", { plan, ports });
    const frozen = world.dispatcher.runOnce();
    await world.ports.clock.advance(leaseMs);
    expect(await world.start().dispatcher.runOnce()).toMatchObject({ rescued: 1, dead: 1 });
    await ports.clock.advance(leaseMs);
    thaw.resolve();
    expect(await frozen).toMatchObject({ left: 1 });
    expect(world.ledger.requests).toHaveLength(0);
  });

  test("a start whose reply is late does not send, because the send could outlast the lease", async () => {
    const reply = Promise.withResolvers<void>();
    let late = true;
    const plan = ({ port }: StoreCall) =>
      port === "startEffects" && late ? ({ kind: "reply", until: reply.promise } as const) : "proceed";
    const world = await oneCharge("none", { plan });
    const round = world.dispatcher.runOnce();
    await world.ports.clock.advance(500);
    late = false;
    reply.resolve();
    expect(await round).toMatchObject({ claimed: 1, retried: 0, left: 0 });
    expect(world.ledger.requests).toHaveLength(0);
    expect(await world.effect()).toMatchObject({
      state: "pending",
      doubtfulSince: null,
      sends: 0,
      returns: 0,
    });
    expect(await world.round(1_000)).toMatchObject({ delivered: 1 });
  });

  test.each(["none", "provider"] as const)(
    "%s: starts that never led to a send use up no tries and add no doubt",
    async (kind) => {
      let late = true;
      const plan = async ({ port }: StoreCall) => {
        if (late && port === (kind === "none" ? "startEffects" : "claimEffects")) {
          return { kind: "reply", until: pause(world.ports.clock, 600) } as const;
        }
        return "proceed" as const;
      };
      const world = await oneCharge(kind, { plan, effect: { delivery: { attemptsMax: 3 } } });
      for (let round = 0; round < 5; round++) {
        const running = world.dispatcher.runOnce();
        await world.ports.clock.advance(1_000);
        await running;
      }
      expect(world.ledger.requests).toHaveLength(0);
      expect(await world.effect()).toMatchObject({ state: "pending", sends: 0, doubtfulSince: null });
      late = false;
      expect(await world.round()).toMatchObject({ delivered: 1 });
    },
  );

  test("a late start after a send in doubt keeps that doubt and counts no send", async () => {
    let late = false;
    const plan = async ({ port }: StoreCall) =>
      late && port === "startEffects"
        ? ({ kind: "reply", until: pause(world.ports.clock, 600) } as const)
        : ("proceed" as const);
    const world = await oneCharge("provider", { plan, ...sends("lost_after") });
    await world.round();
    const before = await world.effect();
    late = true;
    await world.ports.clock.advance(1_000);
    const running = world.dispatcher.runOnce();
    await world.ports.clock.advance(1_000);
    await running;
    const { doubtfulSince } = before;
    expect(doubtfulSince).not.toBeNull();
    expect(await world.effect()).toMatchObject({ state: "pending", sends: 1, returns: 1, doubtfulSince });
    late = false;
    expect(await world.round()).toMatchObject({ delivered: 1 });
    expect(world.ledger.charges).toHaveLength(1);
  });

  test.each([500, leaseMs])(
    "a claim that starts effects and whose reply is %i ms late sends nothing",
    async (lateMs) => {
      const reply = Promise.withResolvers<void>();
      let late = true;
      const plan = ({ port }: StoreCall) =>
        port === "claimEffects" && late ? ({ kind: "reply", until: reply.promise } as const) : "proceed";
      const ports = manualPorts();
      const world = await oneCharge("provider", { plan, ports });
      const round = world.dispatcher.runOnce().catch(() => null);
      await world.ports.clock.advance(0);
      expect(await world.effect()).toMatchObject({ state: "started", sends: 1 });
      await ports.clock.advance(lateMs);
      late = false;
      reply.resolve();
      await round;
      await world.ports.clock.advance(0);
      expect(world.ledger.requests).toHaveLength(0);
      expect(await world.effect()).toMatchObject({ state: "pending", sends: 0, doubtfulSince: null });
      expect(await world.round(1_000)).toMatchObject({ delivered: 1 });
    },
  );

  test("and comes back, frozen in a claim that starts effects: it sends nothing and does not disturb the next owner", async () => {
    const thaw = Promise.withResolvers<void>();
    const plan = ({ port }: StoreCall) =>
      port === "claimEffects" ? ({ kind: "reply", until: thaw.promise } as const) : "proceed";
    const ports = manualPorts();
    const world = await oneCharge("provider", { plan, ports });
    const frozen = world.dispatcher.runOnce().catch(() => null);
    await world.ports.clock.advance(leaseMs);
    expect(await world.start().dispatcher.runOnce()).toMatchObject({ rescued: 1, delivered: 1 });
    await ports.clock.advance(leaseMs);
    thaw.resolve();
    await frozen;
    await world.ports.clock.advance(0);
    expect(world.ledger.requests).toHaveLength(1);
    expect(await world.effect()).toMatchObject({ state: "delivered", sends: 2, returns: 1 });
  });

  test("and comes back after its send: it writes nothing", async () => {
    const thaw = Promise.withResolvers<void>();
    const world = deliveryWorld("provider");
    await world.enqueue(5);
    const first = world.start({
      plan: ({ port }) => (port === "endEffects" ? thaw.promise.then(() => "proceed") : "proceed"),
    });
    const frozen = first.dispatcher.runOnce();
    await world.ports.clock.advance(leaseMs);
    const failing = world.start({ send: () => "lost_before" });
    expect(await failing.dispatcher.runOnce()).toMatchObject({ retried: 1 });
    thaw.resolve();
    await world.ports.clock.advance(0);
    expect(await frozen).toMatchObject({ left: 1 });
    expect(await world.open()).toMatchObject([{ state: "pending" }]);
  });
});
