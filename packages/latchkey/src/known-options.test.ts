import { describe, expect, test } from "vitest";
import { encryptionCodec } from "./encryption.ts";
import { fetchProtect } from "./http/fetch/fetch.ts";
import { checkOptions } from "./known-options.ts";
import { createLatchkey, type Latchkey } from "./latchkey.ts";
import { type MemoryTransaction, memoryStore } from "./stores/memory.ts";
import { postgresStore } from "./stores/postgres.ts";
import { recordCleaner } from "./workers/record-cleaner.ts";

/** As JavaScript calls it. */
type Untyped = (...given: readonly unknown[]) => unknown;
const store = memoryStore();
const latchkey: Latchkey<MemoryTransaction> = createLatchkey({ store });
const run = async () => ({ status: 200, body: null });
let count = 0;
const operation = (options: unknown) => {
  count += 1;
  return (latchkey.operation as Untyped)(`op${count}`, options);
};
const effect = (options: object) =>
  (latchkey.effect as Untyped)("e", { deduplication: "none", execute: run, ...options });

test.each<readonly [string, () => unknown, string]>([
  ["createLatchkey", () => (createLatchkey as Untyped)({}), "store is missing"],
  ["createLatchkey", () => (createLatchkey as Untyped)(), "options must be an object (got undefined)"],
  [
    "a policy",
    () => (createLatchkey as Untyped)({ store, policy: "stripe" }),
    'policy must be an object (got "stripe")',
  ],
  ["createLatchkey", () => (createLatchkey as Untyped)({ store, onEvents: run }), "Did you mean onEvent?"],
  [
    "circuit",
    () => (createLatchkey as Untyped)({ store, circuitBreaker: { openMS: 1 } }),
    "Did you mean openMs?",
  ],
  ["limits", () => (createLatchkey as Untyped)({ store, limits: { newKey: 1 } }), "Did you mean newKeys?"],
  ["operation", () => operation({ retention: 5 }), 'no option "retention". Did you mean retentionMs?'],
  ["operation", () => operation({ zzzzzzzz: 5 }), "Known are admission"],
  ["operation", () => operation("lease"), 'must be an object (got "lease")'],
  ["effect", () => effect({ dedupeWindow: 5 }), "Effect e: there is no option"],
  ["effect's retry", () => effect({ retry: { attempt: 5 } }), "Did you mean attempts?"],
  ["effect's limits", () => effect({ limits: { timeout: 5 } }), "Did you mean timeoutMs?"],
  ["effect's delivery", () => effect({ delivery: { order: true } }), "Did you mean ordered?"],
  [
    "startWorker",
    () => (latchkey.startWorker as Untyped)({ pendingwork: false }),
    "Did you mean pendingWork?",
  ],
  ["service", () => (recordCleaner as Untyped)(latchkey, { interval: 5 }), "Did you mean intervalMs?"],
  ["adapter", () => (fetchProtect as Untyped)(latchkey, { tenants: run }), "Did you mean tenant?"],
  ["encryption", () => (encryptionCodec as Untyped)({ keys: {}, currant: "a" }), "Did you mean current?"],
])("%s refuses what means nothing, and names what was meant: %#", (_what, make, message) => {
  expect(make).toThrow(TypeError);
  expect(make).toThrow(message);
});

describe("options without a meaning under the operation's execution", () => {
  const lease = { execution: "lease" };
  const owned = { execution: "lease", version: "1", run };
  test.each([
    [{ ...lease, isolation: "serializable" }, 'isolation has no meaning under execution "lease"'],
    [{ ...lease, transactionLimitMs: 5 }, "for its phases"],
    [{ ...lease, writes: "required" }, 'choose execution "transaction"'],
    [{ ...lease, pendingLimitMs: 5 }, 'choose execution "deferred"'],
    [{ leaseMs: 5_000 }, 'leaseMs has no meaning under execution "transaction"'],
    [{ attemptLimitMs: 5_000 }, 'choose execution "lease" or "deferred"'],
    [{ isNotExecuted: run }, 'choose execution "lease".'],
    [{ lookup: run }, "lookup has no meaning"],
    [{ ...owned, execution: "deferred", writes: "required" }, "writes has no meaning"],
    [{ ...owned, isNotExecuted: run }, "give isNotExecuted to the effects that it calls"],
    [
      { ...owned, execution: "deferred", isNotExecuted: run },
      "give isNotExecuted to the effects that it calls",
    ],
  ])("%j is refused", (options, message) => {
    expect(() => operation(options)).toThrow(TypeError);
    expect(() => operation(options)).toThrow(message);
  });

  test.each([
    [{ ...owned, isolation: "serializable", transactionLimitMs: 5 }],
    [{ ...lease, isolation: undefined, writes: "none", onStoreFailure: "refuse" }],
  ])("%j is not", (options) => {
    expect(() => operation(options)).not.toThrow();
  });
});

test("an operation under a lease on a pool of one is refused when it is defined", () => {
  const pool = { options: { max: 1 }, connect: run, on: () => {} };
  const narrow = createLatchkey({ store: (postgresStore as Untyped)({ pool }) as never });
  expect(() => narrow.operation("op", { execution: "lease" })).toThrow("a pool of at least 2 connections");
  expect(() => narrow.operation("fine")).not.toThrow();
});

test("inherited names are not options", () => {
  expect(() => checkOptions("x", { constructor: 1 }, {})).toThrow('"constructor"');
});
