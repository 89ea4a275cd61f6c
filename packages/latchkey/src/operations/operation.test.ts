import { describe, expect, expectTypeOf, test } from "vitest";
import { createLatchkey, stripe } from "../index.ts";
import { type MemoryTransaction, memoryStore } from "../stores/memory.ts";

const store = memoryStore();

test("defaults follow the policy", () => {
  const ietf = createLatchkey({ store }).operation("a");
  expect(ietf.execution).toBe("transaction");
  expect(ietf.settings).toMatchObject({ key: "required", reuse: "reject", serverErrors: "by-outcome" });
  expect(ietf.settings).toMatchObject({ retentionMs: 86_400_000, forgetAfterMs: 86_400_000 });
  const likeStripe = createLatchkey({ store, policy: stripe }).operation("a");
  expect(likeStripe.settings).toMatchObject({ key: "optional", reuse: "execute", serverErrors: "store" });
});

describe("impossible options are refused at construction", () => {
  const latchkey = createLatchkey({ store });
  test.each([
    ["retentionMs", { retentionMs: 0 }],
    ["forgetAfterMs", { retentionMs: 10, forgetAfterMs: 9 }],
    ["leaseMs", { leaseMs: 299 }],
    ["waitMs", { waitMs: 60_001 }],
    ["attemptsMax", { attemptsMax: 1.5 }],
    ["answerLimitBytes", { answerLimitBytes: Number.NaN }],
    // Node fires a timer of more than 2^31 - 1 milliseconds at once.
    ["attemptLimitMs", { attemptLimitMs: 2 ** 31 }],
    ["transactionLimitMs", { transactionLimitMs: 2 ** 31 }],
    ["leaseMs", { leaseMs: 2 ** 31 }],
    // Values of a later release, or that JavaScript lets through: guessing a meaning could run work twice.
    ["execution", { execution: "deferred" as "lease" }],
    ["leaseEnd", { leaseEnd: "resume" as "rerun" }],
    ["serverErrors", { serverErrors: "stored" as "store" }],
    ["keyScope", { keyScope: "Tenant" as "tenant" }],
    ["key", { key: true as unknown as "required" }],
    ["reuse", { reuse: "run" as "execute" }],
    ["writes", { writes: false as unknown as "none" }],
    ["isolation", { isolation: "serialisable" as "serializable" }],
    ["isNotExecuted", { isNotExecuted: true as unknown as () => boolean }],
  ])("%s", (field, options) => {
    expect(() => latchkey.operation(`bad-${field}`, options)).toThrow(TypeError);
    expect(() => latchkey.operation(`bad-${field}`, options)).toThrow(field);
  });

  test("a duplicate name, or one that could be a scope", () => {
    latchkey.operation("twice");
    expect(() => latchkey.operation("twice")).toThrow("twice");
    expect(() => latchkey.operation("*")).toThrow(TypeError);
    expect(() => latchkey.operation("a\0b")).toThrow(TypeError);
    expect(() => latchkey.operation("")).toThrow(TypeError);
  });

  test("a transaction on a store without transactions", () => {
    const none = {
      ...store,
      transactions: null,
      capabilities: { ...store.capabilities, transactions: false },
    };
    const plain = createLatchkey({ store: none });
    expect(() => plain.operation("a", { execution: "transaction" })).toThrow("transaction");
    expect(plain.operation("b").execution).toBe("lease");
  });
});

test("a handler's context has tx under transaction, and only there", async () => {
  const latchkey = createLatchkey({ store });
  const inTransaction = latchkey.operation("typed.transaction", { execution: "transaction" });
  const underLease = latchkey.operation("typed.lease", { execution: "lease" });
  await latchkey.run(inTransaction, { tenant: "t", key: "k", input: 1 }, async (context) => {
    expectTypeOf(context.tx).toEqualTypeOf<MemoryTransaction>();
    await context.tx.insert("typed", {});
  });
  await latchkey.run(underLease, { tenant: "t", key: "k", input: 1 }, async (context) => {
    expectTypeOf(context).not.toHaveProperty("tx");
    expect(context).not.toHaveProperty("tx");
  });
});
