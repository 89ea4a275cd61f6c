import { expect, expectTypeOf, test } from "vitest";
import type { Effect } from "../effects/effect.ts";
import { createLatchkey } from "../latchkey.ts";
import { type MemoryTransaction, memoryStore } from "../stores/memory.ts";
import type { Attempt, EnqueuingAttempt } from "./attempt.ts";
import type { Operation } from "./operation.ts";
import type { OwnedOperation } from "./owned-operation.ts";
import type { DeferredAttempt, StepAttempt } from "./owned-work.ts";

const latchkey = createLatchkey({ store: memoryStore() });

interface Charge {
  readonly id: string;
}

const charge = latchkey.effect("types.charge", {
  deduplication: "none",
  execute: async (input: { amount: number }): Promise<Charge> => ({ id: String(input.amount) }),
});

test("an effect's type carries its input and result", () => {
  expectTypeOf(charge).toEqualTypeOf<Effect<{ amount: number }, Charge>>();
});

test("an operation's input comes from its run, and its steps are typed", () => {
  const operation = latchkey.operation("types.owned", {
    execution: "lease",
    leaseEnd: "resume",
    version: "1",
    run: async (input: { amount: number }, attempt) => {
      expectTypeOf(attempt).toEqualTypeOf<StepAttempt<MemoryTransaction>>();
      const id = await attempt.phase("p", async (tx) => {
        expectTypeOf(tx).toEqualTypeOf<MemoryTransaction>();
        return 7;
      });
      expectTypeOf(id).toEqualTypeOf<number>();
      const made = await attempt.call("c", charge, { amount: input.amount });
      expectTypeOf(made).toEqualTypeOf<Charge>();
      // @ts-expect-error the effect takes an amount
      await attempt.call("d", charge, { sum: 1 });
      return { status: 201, body: made };
    },
  });
  expectTypeOf(operation).toEqualTypeOf<OwnedOperation<"lease", { amount: number }>>();
  const request = { tenant: "t", key: "k" };
  void (async () => {
    await latchkey.run(operation, { ...request, input: { amount: 1 } });
    // @ts-expect-error its input has an amount
    await latchkey.run(operation, { ...request, input: { sum: 1 } });
    // @ts-expect-error a number, and not text
    await latchkey.run(operation, { ...request, input: { amount: "1" } });
  });
});

test("under transaction, run gets tx, and no steps", () => {
  latchkey.operation("types.transaction", {
    version: "1",
    run: async (_: string, attempt) => {
      expectTypeOf(attempt.tx).toEqualTypeOf<MemoryTransaction>();
      expectTypeOf(attempt).not.toHaveProperty("call");
      expectTypeOf(attempt).toExtend<EnqueuingAttempt>();
      return {};
    },
  });
});

test("enqueue takes its effect's input, and only in a transaction", () => {
  const submission = {
    key: { tenant: "t", scope: "s", key: "k" },
    fingerprint: { version: 1, digest: new Uint8Array(1) },
    principal: null,
  };
  const answer = { status: 200, headers: [], body: new Uint8Array(0), omitted: null };
  void (async () => {
    await latchkey.execute(latchkey.operation("types.enqueues"), submission, async ({ attempt }) => {
      expectTypeOf(attempt).toEqualTypeOf<EnqueuingAttempt>();
      attempt.enqueue(charge, { amount: 1 }, { aggregate: "a", delayMs: 1 });
      // @ts-expect-error the effect takes an amount
      attempt.enqueue(charge, { sum: 1 });
      return answer;
    });
    const leased = latchkey.operation("types.leased", { execution: "lease" });
    await latchkey.execute(leased, submission, async ({ attempt }) => {
      expectTypeOf(attempt).toEqualTypeOf<Attempt>();
      expectTypeOf(attempt).not.toHaveProperty("enqueue");
      return answer;
    });
  });
});

test("a deferred operation owns its work, and a delivery may answer it", () => {
  const operation = latchkey.operation("types.deferred", {
    execution: "deferred",
    version: "1",
    run: async (input: { amount: number }, attempt) => {
      expectTypeOf(attempt).toEqualTypeOf<DeferredAttempt<MemoryTransaction>>();
      await attempt.phase("p", async () => attempt.enqueue(charge, { amount: input.amount }));
      return attempt.answeredBy(charge);
    },
  });
  expectTypeOf(operation).toEqualTypeOf<OwnedOperation<"deferred", { amount: number }>>();
  expect(() => {
    // @ts-expect-error a worker cannot call a route's handler
    latchkey.operation("types.deferred.bare", { execution: "deferred" });
  }).toThrow(TypeError);
});

test("without run it is a plain operation and has no version", () => {
  expectTypeOf(latchkey.operation("types.bare", { execution: "lease" })).toEqualTypeOf<Operation<"lease">>();
  expectTypeOf(latchkey.operation("types.default")).toEqualTypeOf<Operation<"transaction">>();
  // @ts-expect-error only an operation that owns its work has a version
  latchkey.operation("types.versioned", { execution: "lease", version: "1" });
});
