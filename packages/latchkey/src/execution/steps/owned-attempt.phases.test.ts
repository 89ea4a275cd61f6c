/** Phases of operations that own their work. */
import { describe, expect, test } from "vitest";
import {
  type Attempt,
  leaseMs,
  processOf,
  setUp,
  type Tx,
  type Work,
} from "../../../../../test/support/charging-world.ts";
import { StoreError } from "../../errors.ts";
import type { RunAnswer } from "../../operations/owned-work.ts";
import type { Store } from "../../stores/store.ts";

describe("a phase", () => {
  const once = async (attempt: Attempt) => {
    const returned = await attempt.phase("p", async (tx) => {
      await tx.insert("orders", {});
      return "phase result";
    });
    return { body: returned };
  };

  /** Replaces the store's phase for the first `times` commits. */
  function losing(store: Store<Tx>, times: number, lands: boolean): Partial<Store<Tx>> {
    const { transactions } = store;
    if (transactions === null) throw new TypeError("no transactions");
    let left = times;
    return {
      transactions: {
        ...transactions,
        async phase(phase, work) {
          if (left-- <= 0) return transactions.phase(phase, work);
          if (lands) {
            const { value } = await transactions.phase(phase, work);
            return { kind: "in_doubt", value, error: new Error("socket") };
          }
          const outcome = await transactions.phase(phase, async (open) => ({
            end: "rollback",
            value: (await work(open)).value,
          }));
          return { kind: "in_doubt", value: outcome.value, error: new Error("socket") };
        },
      },
    };
  }

  test.each([true, false])(
    "whose COMMIT is in doubt is settled under a new token (landed: %s)",
    async (lands) => {
      const world = setUp();
      const { submit } = processOf(world, once, { wrap: (store) => losing(store, 1, lands) });
      expect(await world.inTime(submit(), 900)).toMatchObject({ kind: "executed", value: "phase result" });
      expect(world.memory.rows("orders")).toHaveLength(1);
      expect(world.events).toContainEqual(
        expect.objectContaining({ type: "commit_in_doubt", resolved: lands ? "committed" : "rolled_back" }),
      );
      expect(world.types()).not.toContain("lease_lost");
    },
  );

  test.each([true, false])("of the last phase, too (landed: %s)", async (lands) => {
    const world = setUp();
    const { submit } = processOf(
      world,
      (attempt) =>
        attempt.finish("f", async (tx) => {
          await tx.insert("orders", {});
          return { status: 201, body: "end" };
        }),
      { wrap: (store) => losing(store, 1, lands) },
    );
    expect(await world.inTime(submit(), 900)).toMatchObject({ kind: "executed", status: 201, value: "end" });
    expect(await submit()).toMatchObject({ kind: "replay", status: 201, value: "end" });
    expect(world.memory.rows("orders")).toHaveLength(1);
    expect(world.events).toContainEqual(
      expect.objectContaining({ type: "commit_in_doubt", resolved: lands ? "committed" : "rolled_back" }),
    );
  });

  test("that cannot be settled stops the attempt; it is resumed from the journal", async () => {
    const world = setUp();
    const { submit } = processOf(world, once, {
      wrap: (store) => ({
        ...losing(store, 1, true),
        journal: { ...store.journal, refence: () => Promise.reject(new StoreError("in_doubt")) },
      }),
    });
    expect(await world.inTime(submit(), 6_000)).toMatchObject({ kind: "commit_in_doubt" });
    expect(world.types(), "one doubt is reported once").toEqual(["reserved", "commit_in_doubt"]);
    await world.ports.clock.advance(leaseMs);
    expect(await world.inTime(processOf(world, once).submit())).toMatchObject({
      kind: "executed",
      value: "phase result",
    });
    expect(world.memory.rows("orders")).toHaveLength(1);
  });

  test.each<readonly [string, (attempt: Attempt) => RunAnswer, unknown]>([
    ["answers 503", () => ({ status: 503 }), { error: expect.any(TypeError) }],
    ["answers 429", () => ({ status: 429 }), { error: expect.any(TypeError) }],
    [
      "is released",
      (attempt) => {
        attempt.release();
        return {};
      },
      { result: expect.objectContaining({ kind: "executed", status: 201 }) },
    ],
  ])("that %s has undone its work: run cannot complete without it", async (_, answerOf, expected) => {
    const world = setUp();
    const ending = (last: (attempt: Attempt) => RunAnswer): Work => {
      return async (attempt) => {
        await attempt.phase("order", async (tx) => tx.insert("orders", {}));
        await attempt.finish("settled", async (tx) => {
          await tx.insert("settled", {});
          return last(attempt);
        });
        return { status: 201 };
      };
    };
    const stores = () => [world.memory.rows("orders").length, world.memory.rows("settled").length];
    const first = processOf(world, ending(answerOf)).submit();
    const ended = await first.then(
      (result) => ({ result }),
      (error: unknown) => ({ error }),
    );
    expect(ended).toEqual(expected);
    expect([await world.record(), stores()]).toMatchObject([{ state: "retryable" }, [1, 0]]);
    const second = await processOf(
      world,
      ending(() => ({ status: 202 })),
    ).submit();
    expect(second, "the answer of its last phase").toMatchObject({ kind: "executed", status: 202 });
    expect(stores()).toEqual([1, 1]);
  });

  test("runs again after a serialization failure, with a limit", async () => {
    const world = setUp();
    let failures = 3;
    let runs = 0;
    const { submit } = processOf(world, async (attempt) => ({
      body: await attempt.phase("p", async () => {
        runs += 1;
        if (failures-- > 0) throw Object.assign(new Error("serialize"), { code: "40001" });
        return runs;
      }),
    }));
    expect(await world.inTime(submit())).toMatchObject({ value: 4 });
    expect(runs).toBe(4);
  });

  test("that always fails to serialize is given up", async () => {
    const world = setUp();
    const { submit } = processOf(world, (attempt) =>
      attempt.phase("p", () => Promise.reject(Object.assign(new Error("serialize"), { code: "40P01" }))),
    );
    await expect(world.inTime(submit())).rejects.toThrow("serialize");
    expect(await world.record()).toBeNull();
    expect(world.types().filter((type) => type === "transaction_rerun")).toHaveLength(8);
  });

  test("that throws leaves no writes, and run gets its error", async () => {
    const world = setUp();
    const { submit } = processOf(world, async (attempt) => {
      const error = await attempt
        .phase("p", async (tx) => {
          await tx.insert("orders", {});
          throw new Error("no stock");
        })
        .catch(String);
      return { status: 409, body: error };
    });
    expect(await submit()).toMatchObject({ kind: "executed", status: 409, value: "Error: no stock" });
    expect(world.memory.rows("orders")).toHaveLength(0);
  });

  test("revokes its tx", async () => {
    const world = setUp();
    let kept: Tx | null = null;
    const { submit } = processOf(world, async (attempt) => {
      await attempt.phase("p", async (tx) => {
        kept = tx;
      });
      return {};
    });
    await submit();
    await expect((kept as Tx | null)?.insert("orders", {})).rejects.toMatchObject({ code: "tx-revoked" });
  });
});

describe("the last phase", () => {
  const finishes: Work = (attempt) =>
    attempt.finish("f", async (tx) => {
      await tx.insert("orders", {});
      return { status: 201, body: "end" };
    });

  /** The commit takes effect at once; its reply comes when `reply` resolves. */
  function slowly(store: Store<Tx>, reply: Promise<void>): Partial<Store<Tx>> {
    const { transactions } = store;
    if (transactions === null) throw new TypeError("no transactions");
    const phase: typeof transactions.phase = async (request, work) => {
      const outcome = await transactions.phase(request, work);
      await reply;
      return outcome;
    };
    return { transactions: { ...transactions, phase } };
  }

  test("has completed the attempt: a beat that finds that is not a lost lease", async () => {
    const world = setUp();
    const reply = Promise.withResolvers<void>();
    const { submit } = processOf(world, finishes, { wrap: (store) => slowly(store, reply.promise) });
    const first = submit();
    await world.ports.clock.advance(leaseMs);
    reply.resolve();
    expect(await world.inTime(first, 10)).toMatchObject({ kind: "executed", status: 201 });
    expect(world.types()).toEqual(["reserved", "step_finished", "executed"]);
  });

  test("has completed the attempt, and run continues: no lost lease either, and no other answer", async () => {
    const world = setUp();
    const gate = Promise.withResolvers<void>();
    const { submit } = processOf(world, async (attempt, charge, input) => {
      await finishes(attempt, charge, input);
      await gate.promise;
      throw new Error("too late");
    });
    const first = submit();
    await world.ports.clock.advance(2 * leaseMs);
    gate.resolve();
    expect(await world.inTime(first, 10)).toMatchObject({ kind: "executed", value: "end" });
    expect(world.types()).toEqual(["reserved", "step_finished", "attempt_failed", "executed"]);
  });

  test("in doubt, and another owner has completed the record meanwhile: its answer counts", async () => {
    const world = setUp();
    const { transactions } = world.memory;
    if (transactions === null) throw new TypeError("no transactions");
    const gate = Promise.withResolvers<void>();
    const zombie = processOf(world, finishes, {
      wrap: () => ({
        renew: async () => true,
        transactions: {
          ...transactions,
          phase: async (_, work) => {
            const abandoned = await transactions.phase(_, async (open) => ({
              end: "rollback",
              value: (await work(open)).value,
            }));
            await gate.promise;
            return { kind: "in_doubt", value: abandoned.value, error: new Error("socket") };
          },
        },
      }),
    });
    const first = zombie.submit();
    await world.ports.clock.advance(leaseMs);
    await processOf(world, async () => ({ status: 200, body: "winner" })).submit();
    gate.resolve();
    expect(await world.inTime(first)).toMatchObject({ kind: "replay", value: "winner" });
    expect(world.memory.rows("orders")).toHaveLength(0);
  });

  test("whose fence is lost runs its work once", async () => {
    const world = setUp();
    const gate = Promise.withResolvers<void>();
    let works = 0;
    const zombie = processOf(
      world,
      (attempt) =>
        attempt.finish("f", async () => {
          works += 1;
          await gate.promise;
          return {};
        }),
      { wrap: () => ({ renew: async () => true }) },
    );
    const first = zombie.submit();
    await world.ports.clock.advance(leaseMs);
    await processOf(world, async () => ({ body: "winner" })).submit();
    gate.resolve();
    expect(await world.inTime(first)).toMatchObject({ kind: "replay", value: "winner" });
    expect(works).toBe(1);
  });
});
