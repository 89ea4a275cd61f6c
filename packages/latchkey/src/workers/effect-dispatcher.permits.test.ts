/** The permits of an effect's two limits are given back exactly once, however a claim or a delivery ends. */
import { describe, expect, test } from "vitest";
import type { ProcessOptions } from "../../../../test/support/delivery-world.ts";
import { gated, several } from "../../../../test/support/dispatching.ts";
import type { EffectKind, SendFault } from "../../../../test/support/downstream-ledger.ts";
import { semaphoreOf } from "../effects/run-effect.ts";
import { rateOf } from "../outbox/rate.ts";
import type { Fault, StoreCall } from "../testing/faulty-store/fault.ts";
import { effectDispatcher } from "./effect-dispatcher.ts";

const never = 1_000_000;
const limits = { concurrency: 5, perSecond: 5, timeoutMs: 60_000 };
const options = { effect: { limits }, dispatcher: { intervalMs: never } };
/** With both limits at 5. */
const allFree = { concurrency: 5, rate: 5 };

type World = Awaited<ReturnType<typeof several>>;

/** How many permits are free now. */
function freeOf({ ports }: World, { charge }: Pick<ReturnType<World["start"]>, "charge">) {
  return { concurrency: semaphoreOf(charge)?.free(), rate: rateOf(charge, ports.clock)?.capacity() };
}

const atClaim = (fault: Fault) => ({
  plan: ({ port }: StoreCall) => (port === "claimEffects" ? fault : "proceed"),
});

describe("a claim", () => {
  test.each(["not_sent", "request_lost", "reply_lost"] as const)("that fails: %s", async (fault) => {
    const world = await several("none", 2);
    const process = world.start({ ...options, ...atClaim(fault) });
    await expect(process.dispatcher.runOnce()).rejects.toThrow();
    expect(freeOf(world, process)).toEqual(allFree);
  });

  test("with fewer rows than wanted: what its sends do not need is free during them", async () => {
    const world = await several("none", 2);
    const process = gated(world, options);
    const { dispatcher, endNext } = process;
    const running = dispatcher.runOnce();
    await world.ports.clock.advance(0);
    expect(freeOf(world, process)).toEqual({ concurrency: 3, rate: 3 });
    await endNext();
    expect(freeOf(world, process)).toEqual({ concurrency: 4, rate: 3 });
    await endNext();
    await running;
    expect(freeOf(world, process)).toEqual({ concurrency: 5, rate: 3 });
    await world.ports.clock.advance(1_000);
    expect(freeOf(world, process)).toEqual(allFree);
  });

  test("without a row", async () => {
    const world = await several("none", 0);
    const process = world.start(options);
    await process.dispatcher.runOnce();
    expect(freeOf(world, process)).toEqual(allFree);
  });

  test("with more rows than wanted: those above the limit are not sent", async () => {
    const world = await several("none", 9);
    const wrap: ProcessOptions["wrap"] = (store) => {
      if (store.outbox === null) return store;
      const { claim } = store.outbox;
      const claimMore: typeof claim = (wants, ...rest) =>
        claim(
          wants.map((want) => ({ ...want, limit: want.limit + 2 })),
          ...rest,
        );
      return { ...store, outbox: { ...store.outbox, claim: claimMore } };
    };
    const process = world.start({ ...options, wrap });
    expect(await process.dispatcher.runOnce()).toMatchObject({ claimed: 5, delivered: 5 });
    expect(freeOf(world, process)).toEqual({ concurrency: 5, rate: 0 });
    await world.ports.clock.advance(1_000);
    expect(freeOf(world, process)).toEqual(allFree);
  });

  test("that is under way when the dispatcher stops: its rows are given back, and no send counts for the rate", async () => {
    const world = await several("none", 3);
    const reply = Promise.withResolvers<void>();
    const process = world.start({ ...options, ...atClaim({ kind: "reply", until: reply.promise }) });
    process.dispatcher.start();
    await world.ports.clock.advance(0);
    expect(freeOf(world, process)).toEqual({ concurrency: 0, rate: 0 });
    const stopped = process.dispatcher.stop();
    reply.resolve();
    await world.ports.clock.advance(0);
    await stopped;
    expect(freeOf(world, process)).toEqual(allFree);
    expect(await world.inState("pending")).toHaveLength(3);
    expect(world.ledger.requests).toEqual([]);
  });

  test("of a second dispatcher of the same effect takes only what the first one left", async () => {
    const world = await several("none", 9);
    const process = gated(world, { ...options, dispatcher: { ...options.dispatcher, batchSize: 3 } });
    const dispatchers = [process.dispatcher, effectDispatcher(process.latchkey, { batchSize: 4 })];
    const running = dispatchers.map((dispatcher) => dispatcher.runOnce());
    await world.ports.clock.advance(0);
    expect(process.waiting).toHaveLength(5);
    expect(freeOf(world, process)).toEqual({ concurrency: 0, rate: 0 });
    for (let left = 0; left < 5; left++) await process.endNext();
    await Promise.all(running);
    expect(freeOf(world, process)).toEqual({ concurrency: 5, rate: 0 });
  });
});

describe("a delivery", () => {
  test("with `provider`, whose end cannot be written yet: its permits are given back at its return, not again at its end", async () => {
    const world = await several("provider", 3);
    const thaw = Promise.withResolvers<void>();
    const process = world.start({
      ...options,
      plan: ({ port }) => (port === "endEffects" ? thaw.promise.then(() => "proceed") : "proceed"),
    });
    const running = process.dispatcher.runOnce();
    await world.ports.clock.advance(0);
    expect(freeOf(world, process)).toEqual({ concurrency: 5, rate: 2 });
    thaw.resolve();
    await world.ports.clock.advance(0);
    await running;
    expect(freeOf(world, process)).toEqual({ concurrency: 5, rate: 2 });
  });

  const kinds: readonly EffectKind[] = ["provider", "reopen", "none"];
  const sendFaults: readonly SendFault[] = ["proceed", "lost_before", "lost_after"];
  const faults = ["not_sent", "request_lost", "reply_lost"] as const;
  const cases = kinds.flatMap((kind) => sendFaults.map((first) => ({ kind, first })));

  test.each(cases)("of $kind whose first send is $first: any fault at any call", async ({ kind, first }) => {
    for (const fault of faults) {
      let reached = true;
      for (let at = 1; reached && at < 40; at += 1) reached = await allComeBack({ kind, first, fault }, at);
      expect(reached).toBe(false);
    }
  });

  /** Three charges, with the fault at the `at`th call to the store. False: there was no such call. */
  async function allComeBack(
    { kind, first, fault }: { readonly kind: EffectKind; readonly first: SendFault; readonly fault: Fault },
    at: number,
  ): Promise<boolean> {
    const world = await several(kind, 3);
    const sends = [first];
    let calls = 0;
    const isWithin = () => {
      const { concurrency = -1, rate = -1 } = freeOf(world, process);
      expect(Math.min(concurrency, rate)).toBeGreaterThanOrEqual(0);
      expect(Math.max(concurrency, rate)).toBeLessThanOrEqual(5);
    };
    const process = world.start({
      plan({ port }) {
        if (!port.includes("Effects")) return "proceed";
        isWithin();
        calls += 1;
        return calls === at ? fault : "proceed";
      },
      send() {
        isWithin();
        return sends.shift() ?? "proceed";
      },
      effect: {
        limits: { ...limits, timeoutMs: 500 },
        delivery: { attemptsMax: 3, backoffMs: 100, backoffMaxMs: 100 },
      },
    });
    process.dispatcher.start();
    await world.ports.clock.advance(15_000);
    const reached = calls >= at;
    await process.dispatcher.stop();
    await world.ports.clock.advance(1_000);
    expect(freeOf(world, process), `${JSON.stringify(fault)} at call ${at}`).toEqual(allFree);
    return reached;
  }
});
