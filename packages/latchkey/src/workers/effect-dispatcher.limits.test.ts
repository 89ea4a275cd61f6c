/** How many due effects a dispatcher delivers at once. */
import { describe, expect, test } from "vitest";
import type { ProcessOptions } from "../../../../test/support/delivery-world.ts";
import { gated, several } from "../../../../test/support/dispatching.ts";

const never = 1_000_000;

describe("limits", () => {
  test("no more sends run than the effect's concurrency, and no effect is claimed that would only wait", async () => {
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

  test("no more sends run than the dispatcher's batch size", async () => {
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
    { kind: "provider", effect: {}, sends: 8, why: "sent deliveries free their place" },
    {
      kind: "provider",
      effect: { onDelivered },
      sends: 4,
      why: "deliveries with `onDelivered` keep their place",
    },
    { kind: "none", effect: {}, sends: 4, why: "a crash must not leave more in doubt" },
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

  test("capacity that becomes free bit by bit is not claimed bit by bit", async () => {
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

  test("exactly as many sends begin in a second as the effect's rate allows", async () => {
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

  test("an effect whose provider hangs leaves capacity for the others", async () => {
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
