/** Leases, fences and limits of attempts that own their work. */
import { describe, expect, test } from "vitest";
import { frozen, leaseMs, processOf, setUp } from "../../../../../test/support/charging-world.ts";
import { isLatchkeyError } from "../../errors.ts";

describe("a lease of an owned attempt", () => {
  test("is kept through long phases and calls", async () => {
    const world = setUp({ kind: "none" });
    const { clock } = world.ports;
    const wait = (ms: number) => new Promise<void>((resolve) => void clock.startTimer(ms, resolve));
    const { submit } = processOf(
      world,
      async (attempt, charge, input) => {
        await attempt.phase("slow", async (tx) => {
          for (let turn = 0; turn < 10; turn++) {
            await wait(1_000);
            await tx.rows("orders");
          }
        });
        return { body: await attempt.call("charged", charge, input) };
      },
      {
        effect: {
          limits: { timeoutMs: 20_000 },
          execute: (input, call) => wait(10_000).then(() => world.ledger.charge(call.key, input)),
        },
      },
    );
    expect(await world.inTime(submit())).toMatchObject({ kind: "executed" });
    expect(world.types()).not.toContain("lease_lost");
  });

  test("lost: the owner can neither run a phase or call, nor complete, nor answer with its own result", async () => {
    const world = setUp({ kind: "none" });
    const gate = Promise.withResolvers<void>();
    const codes: unknown[] = [];
    const note = (error: unknown) => codes.push(isLatchkeyError(error) ? error.code : error);
    const zombie = processOf(
      world,
      async (attempt, charge, input) => {
        await gate.promise;
        expect(attempt.signal.aborted).toBe(true);
        await attempt.phase("zombie", (tx) => tx.insert("zombies", {})).catch(note);
        await attempt.call("charged", charge, input).catch(note);
        await attempt.finish("end", async () => ({ status: 200 })).catch(note);
        return { status: 299, body: "zombie" };
      },
      frozen,
    );
    const first = zombie.submit();
    await world.ports.clock.advance(leaseMs);
    const winner = processOf(world, async () => ({ status: 201, body: "winner" }));
    expect(await winner.submit()).toMatchObject({ kind: "executed", value: "winner" });
    gate.resolve();
    expect(await world.inTime(first)).toMatchObject({ kind: "replay", status: 201, value: "winner" });
    expect(codes).toEqual(["attempt-lost", "attempt-lost", "attempt-lost"]);
    expect(world.ledger.requests).toHaveLength(0);
    expect(world.memory.rows("zombies")).toHaveLength(0);
  });

  test("lost to another attempt without its own clock noticing: the fence rejects phase, call and end", async () => {
    for (const step of ["phase", "call", "finish", "end"] as const) {
      const world = setUp({ kind: "none" });
      const gate = Promise.withResolvers<void>();
      const zombie = processOf(
        world,
        async (attempt, charge, input) => {
          await gate.promise;
          if (step === "phase") await attempt.phase("p", (tx) => tx.insert("zombies", {}));
          if (step === "call") await attempt.call("charged", charge, input);
          if (step === "finish")
            return attempt.finish("f", async (tx) => {
              await tx.insert("zombies", {});
              return { status: 299 };
            });
          return { status: 299 };
        },
        { wrap: () => ({ renew: async () => true }) },
      );
      const first = zombie.submit();
      await world.ports.clock.advance(leaseMs);
      const winner = processOf(world, async () => ({ status: 201, body: "winner" }));
      await winner.submit();
      gate.resolve();
      expect(await world.inTime(first), step).toMatchObject({ kind: "replay", status: 201 });
      expect(world.ledger.requests, step).toHaveLength(0);
      expect(world.memory.rows("zombies"), step).toHaveLength(0);
    }
  });

  test("that ended under reconcile: the late owner settles its own complete answer, not another's", async () => {
    const world = setUp({ options: { leaseEnd: "reconcile" } });
    const gate = Promise.withResolvers<void>();
    const late = processOf(world, async () => gate.promise.then(() => ({ status: 201, body: "mine" })), {
      wrap: () => ({ renew: async () => true }),
    });
    const first = late.submit();
    await world.ports.clock.advance(leaseMs);
    expect(await late.rescuer.runOnce()).toMatchObject({ rescued: 1 });
    expect(await world.record()).toMatchObject({
      state: "unknown",
      lastErrorCode: "lease-ended",
      reconcileAfter: expect.any(Number),
    });
    gate.resolve();
    expect(await world.inTime(first)).toMatchObject({ kind: "executed", status: 201, value: "mine" });
    expect(await world.record()).toMatchObject({ state: "completed" });
  });

  test.each(["unknown by then", "unnoticed"])(
    "lost, and run swallows the error: work of lost steps is not completed (%s)",
    async (when) => {
      const world = setUp({ options: { leaseEnd: "reconcile" } });
      const gate = Promise.withResolvers<void>();
      const { submit, rescuer } = processOf(
        world,
        async (attempt) => {
          await attempt.phase("first", (tx) => tx.insert("first", {}));
          await gate.promise;
          await attempt.phase("second", (tx) => tx.insert("second", {})).catch(() => {});
          return { status: 201, body: "all done" };
        },
        frozen,
      );
      const first = submit().catch((error: unknown) => error);
      await world.ports.clock.advance(when === "unnoticed" ? leaseMs * 0.95 : leaseMs);
      if (when !== "unnoticed") expect(await rescuer.runOnce()).toMatchObject({ rescued: 1 });
      gate.resolve();
      const result = await world.inTime(first);
      expect(result).toMatchObject(when === "unnoticed" ? { code: "attempt-lost" } : { kind: "unknown" });
      expect(await world.record()).toMatchObject({ state: when === "unnoticed" ? "retryable" : "unknown" });
      expect(world.memory.rows("second")).toHaveLength(0);
    },
  );

  test("a job that kills its owner every time ends unknown, not in a loop", async () => {
    const world = setUp({ options: { attemptsMax: 3 } });
    let starts = 0;
    const deadly = processOf(
      world,
      async () => {
        starts += 1;
        return new Promise<never>(() => {});
      },
      frozen,
    );
    void deadly.submit();
    for (let round = 0; round < 10; round++) {
      await world.ports.clock.advance(leaseMs);
      // It never comes back: the process that runs it dies.
      void deadly.rescuer.runOnce();
      await world.ports.clock.advance(1);
    }
    expect(starts).toBe(3);
    expect(await world.record()).toMatchObject({
      state: "unknown",
      lastErrorCode: "attempts-spent",
      reconcileAfter: null,
    });
    expect(await deadly.reconciler.runOnce()).toMatchObject({ found: 0 });
  });

  test("an attempt over its time limit keeps its steps, and none of its work continues", async () => {
    const world = setUp({ kind: "none", options: { attemptLimitMs: 5_000 } });
    let after: unknown = null;
    const gate = Promise.withResolvers<void>();
    const { submit } = processOf(world, async (attempt) => {
      await attempt.phase("order", (tx) => tx.insert("orders", {}));
      await gate.promise;
      after = await attempt.phase("late", (tx) => tx.insert("orders", {})).catch((error: unknown) => error);
      return {};
    });
    await expect(world.inTime(submit())).rejects.toMatchObject({ code: "attempt-limit" });
    expect(await world.record()).toMatchObject({ state: "retryable", lastErrorCode: "attempt-limit" });
    gate.resolve();
    await world.ports.clock.advance(1);
    expect(after).toMatchObject({ code: "attempt-lost" });
    expect(world.memory.rows("orders")).toHaveLength(1);
  });
});

describe("a new token", () => {
  test("is not mistaken for another owner's by a beat under the old one", async () => {
    const world = setUp();
    const { transactions, journal } = world.memory;
    if (transactions === null) throw new TypeError("no transactions");
    let commits = 0;
    const reply = Promise.withResolvers<void>();
    const { submit } = processOf(
      world,
      async (attempt) => ({ body: await attempt.phase("p", async () => "phase result") }),
      {
        wrap: () => ({
          transactions: {
            ...transactions,
            async phase(request, work) {
              const outcome = await transactions.phase(request, work);
              commits += 1;
              return commits === 1
                ? { kind: "in_doubt", value: outcome.value, error: new Error("socket") }
                : outcome;
            },
          },
          journal: {
            ...journal,
            async refence(...given) {
              const done = await journal.refence(...given);
              await reply.promise;
              return done;
            },
          },
        }),
      },
    );
    const first = submit();
    await world.ports.clock.advance(1_500);
    reply.resolve();
    expect(await world.inTime(first, 10)).toMatchObject({ kind: "executed", value: "phase result" });
    expect(world.types()).toEqual(["reserved", "commit_in_doubt", "step_finished", "executed"]);
  });
});

test("a phase that is interrupted by a lost lease throws that the attempt is lost", async () => {
  const world = setUp();
  let code: unknown = null;
  const { submit } = processOf(
    world,
    async (attempt) => {
      code = await attempt
        .phase("p", () => new Promise<never>(() => {}))
        .catch((error: unknown) => isLatchkeyError(error) && error.code);
      return {};
    },
    frozen,
  );
  await world.inTime(submit()).catch(() => {});
  expect(code).toBe("attempt-lost");
});
