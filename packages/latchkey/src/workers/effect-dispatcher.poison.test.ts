/** Rows that cannot be claimed, delivered or written must not affect the others. */
import { describe, expect, test } from "vitest";
import { several } from "../../../../test/support/dispatching.ts";
import { StoreError } from "../errors.ts";

describe("poison", () => {
  test("a row that cannot be written does not affect the others", async () => {
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

  test("a row that makes the claim fail delays only the rows behind it", async () => {
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

  test("an input that does not decode is retried, then left to a person; one that is not JSON is left at once", async () => {
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

  test("a result without a JSON form becomes a dead letter, whose reason says that the send has happened", async () => {
    const world = await several("provider", 1);
    const execute = async () => ({ id: 1n, amount: 5 }) as never;
    const { dispatcher } = world.start({ effect: { execute } });
    expect(await dispatcher.runOnce()).toMatchObject({ dead: 1 });
    expect(await world.inState("dead")).toMatchObject([{ lastErrorCode: "result-not-stored", returns: 1 }]);
  });
});
