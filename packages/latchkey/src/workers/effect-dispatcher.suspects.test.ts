/** Effects that may have crashed a process are sent one at a time, so that the guilty one becomes a dead letter alone. */
import { describe, expect, test } from "vitest";
import { type DeliveryWorld, deliveryWorld } from "../../../../test/support/delivery-world.ts";
import type { EffectKind } from "../../../../test/support/downstream-ledger.ts";

const leaseMs = 11_000;
const never = 1_000_000;
const hangs = () => new Promise<never>(() => {});

async function several(kind: EffectKind, count: number): Promise<DeliveryWorld> {
  const world = deliveryWorld(kind);
  for (let amount = 1; amount <= count; amount++) await world.enqueue(amount);
  return world;
}

/** Kills a process during its sends; returns how many were running. */
async function killed(world: DeliveryWorld): Promise<number> {
  let sends = 0;
  const execute = () => {
    sends += 1;
    return hangs();
  };
  const process = world.start({ effect: { execute } });
  process.dispatcher.start();
  await world.ports.clock.advance(100);
  process.kill();
  await world.ports.clock.advance(leaseMs);
  return sends;
}

describe.each(["provider", "reopen"] as const)("%s", (kind) => {
  test("an effect that kills its process is the only dead letter, and its neighbours are delivered", async () => {
    const world = await several(kind, 10);
    let kills = 0;
    for (let life = 0; life < 5; life++) {
      const execute = async (input: { readonly amount: number }, { key }: { readonly key: string }) => {
        if (input.amount !== 7) return world.ledger.charge(key, input);
        kills += 1;
        process.kill();
        return hangs();
      };
      const process = world.start({ effect: { execute } });
      process.dispatcher.start();
      await world.ports.clock.advance(60_000);
    }
    const dead = await world.inState("dead");
    expect(dead).toMatchObject([{ lastErrorCode: "kills-its-process", sends: 3, returns: 0 }]);
    expect(kills).toBe(3);
    expect(await world.inState("delivered")).toHaveLength(9);
    expect(world.ledger.charges).toHaveLength(9);
  });

  test("innocent effects survive a process that is killed again and again", async () => {
    const world = await several(kind, 10);
    expect(await killed(world)).toBe(10);
    for (let life = 0; life < 2; life++) expect(await killed(world)).toBe(1);
    const { dispatcher } = world.start();
    dispatcher.start();
    await world.ports.clock.advance(60_000);
    await dispatcher.stop();
    expect(await world.inState("delivered")).toHaveLength(10);
    expect(await world.inState("dead")).toEqual([]);
    expect(world.ledger.charges).toHaveLength(10);
  });
});

describe("suspects that wait for their turn", () => {
  test("are woken for it, with few claims", async () => {
    const world = await several("provider", 40);
    await killed(world);
    let claims = 0;
    const plan = ({ port }: { readonly port: string }) => {
      if (port === "claimEffects") claims += 1;
      return "proceed" as const;
    };
    const { dispatcher } = world.start({ plan, dispatcher: { intervalMs: never } });
    dispatcher.start();
    await world.ports.clock.advance(2_000);
    expect(await world.inState("delivered")).toHaveLength(40);
    expect(claims).toBeLessThan(100);
    await dispatcher.stop();
  });

  test("do not delay others, and stay in doubt", async () => {
    const world = await several("provider", 5);
    await killed(world);
    for (let amount = 11; amount <= 30; amount++) await world.enqueue(amount);
    let suspects = 0;
    const execute = async (input: { readonly amount: number }, { key }: { readonly key: string }) => {
      if (input.amount > 10) return world.ledger.charge(key, input);
      suspects += 1;
      return hangs();
    };
    const limits = { timeoutMs: 30_000, concurrency: 2 };
    const { dispatcher, kill } = world.start({ effect: { execute, limits } });
    dispatcher.start();
    await world.ports.clock.advance(20_000);
    expect(suspects).toBe(1);
    expect(await world.inState("delivered")).toHaveLength(20);
    const waiting = await world.inState("pending");
    expect(waiting).toHaveLength(4);
    for (const { sends, returns, doubtfulSince, fence } of waiting) {
      expect([sends, returns, doubtfulSince !== null]).toEqual([1, 0, true]);
      expect(fence.attempt).toBeLessThan(12);
    }
    kill();
  });

  test("can be claimed by another process meanwhile", async () => {
    const world = await several("provider", 5);
    await killed(world);
    const stuck = world.start({ effect: { execute: hangs, limits: { timeoutMs: 300_000 } } });
    stuck.dispatcher.start();
    await world.ports.clock.advance(0);
    const { dispatcher } = world.start();
    dispatcher.start();
    await world.ports.clock.advance(60_000);
    expect(await world.inState("delivered")).toHaveLength(4);
    await dispatcher.stop();
    stuck.kill();
  });
});
