import { expect, test } from "vitest";
import { createLatchkey } from "../latchkey.ts";
import { memoryStore } from "../stores/memory.ts";

const request = { tenant: "t", key: "k", input: { amount: 1 } };

function setUp() {
  const store = memoryStore();
  const latchkey = createLatchkey({ store });
  return { store, latchkey, order: latchkey.operation("orders.create") };
}

test("every caller gets the value after one round trip through JSON, the first included", async () => {
  const { latchkey, order } = setUp();
  const work = () =>
    latchkey.run(order, request, async ({ tx }) => {
      await tx.insert("orders", { amount: 1 });
      return { at: new Date(0), nothing: undefined };
    });
  const first = await work();
  const second = await work();
  const value = { at: "1970-01-01T00:00:00.000Z" };
  expect(first).toMatchObject({ kind: "executed" });
  expect(second).toMatchObject({ kind: "replay" });
  if (!("value" in first) || !("value" in second)) throw new Error("no value");
  expect(first.value).toStrictEqual(value);
  expect(second.value).toStrictEqual(value);
});

test("a function without a result replays undefined", async () => {
  const { latchkey, order } = setUp();
  const work = () => latchkey.run(order, request, async ({ tx }) => tx.insert("orders", {}));
  expect(await work()).toMatchObject({ kind: "executed", value: undefined });
  expect(await work()).toMatchObject({ kind: "replay", value: undefined });
});

test("the same key with another input is misuse; the order of names does not matter", async () => {
  const { latchkey, order, store } = setUp();
  const run = (input: unknown) =>
    latchkey.run(order, { ...request, input }, async ({ tx }) => tx.insert("orders", {}));
  await run({ amount: 1, item: "a" });
  expect(await run({ item: "a", amount: 1 })).toMatchObject({ kind: "replay" });
  expect(await run({ item: "a", amount: 2 })).toEqual({ kind: "key_misuse", because: "fingerprint" });
  expect(store.rows("orders")).toHaveLength(1);
});

test("a value too large to store: it ran once, and the result says that it is gone", async () => {
  const { latchkey } = setUp();
  const report = latchkey.operation("reports", { execution: "lease", answerLimitBytes: 4 });
  const work = () => latchkey.run(report, request, async () => "much too long");
  expect(await work()).toMatchObject({ kind: "executed", value: "much too long" });
  expect(await work()).toMatchObject({ kind: "answer_not_stored" });
});

const cyclic: Record<string, unknown> = {};
cyclic.self = cyclic;

test.each([
  ["a BigInt", { amount: 1n }],
  ["a cycle", cyclic],
  ["a function", () => 1],
  ["a symbol", Symbol("s")],
])("a value that is %s fails with the operation's name and a remedy", async (_what, value) => {
  const { latchkey, order } = setUp();
  const report = latchkey.operation("reports", { execution: "lease" });
  for (const [operation, name] of [
    [order, "orders.create"],
    [report, "reports"],
  ] as const) {
    const failing = latchkey.run(operation, request, async () => value);
    await expect(failing).rejects.toThrow(TypeError);
    await expect(latchkey.run(operation, { ...request, key: "k2" }, async () => value)).rejects.toThrow(
      `The result of ${name} is not JSON`,
    );
  }
  // It ran: a lease cannot take that back.
  expect(await latchkey.run(report, request, async () => 1)).toMatchObject({ kind: "unknown" });
});

test("keys are unique across operations under keyScope: tenant", async () => {
  const { latchkey } = setUp();
  const a = latchkey.operation("a", { execution: "lease", keyScope: "tenant" });
  const b = latchkey.operation("b", { execution: "lease", keyScope: "tenant" });
  const c = latchkey.operation("c", { execution: "lease" });
  await latchkey.run(a, request, async () => 1);
  expect(await latchkey.run(b, request, async () => 2)).toEqual({ kind: "key_misuse", because: "operation" });
  expect(await latchkey.run(c, request, async () => 3)).toMatchObject({ kind: "executed" });
});

test.each([
  ["identity-is-credential", { tenant: "Bearer token" }],
  ["identity-is-credential", { principal: "Bearer token" }],
  ["invalid-key", { key: "undefined" }],
  ["invalid-key", { key: "[object Object]" }],
])(
  "%s: %j is refused before anything is stored, also of an operation that owns its work",
  async (code, change) => {
    const { latchkey, order } = setUp();
    let runs = 0;
    const owned = latchkey.operation("owned", {
      execution: "lease",
      version: "1",
      run: async () => {
        runs += 1;
        return { status: 201, body: {} };
      },
    });
    const unusable = { ...request, ...change };
    const work = async () => {
      runs += 1;
    };
    await expect(latchkey.run(order, unusable, work)).rejects.toMatchObject({ code });
    await expect(latchkey.run(owned, unusable)).rejects.toMatchObject({ code });
    expect(runs).toBe(0);
  },
);

test.each([
  ["tenant", { ...request, tenant: "" }],
  ["key", { ...request, key: "" }],
  ["key", { ...request, key: "k".repeat(256) }],
])("an unusable %s is refused before anything is stored", async (field, unusable) => {
  const { latchkey, order } = setUp();
  await expect(latchkey.run(order, unusable, async () => 1)).rejects.toThrow(field);
});

test("keys that belong to a path are refused without a path", async () => {
  const latchkey = createLatchkey({ store: memoryStore() });
  const operation = latchkey.operation("a", { execution: "lease", keyScope: "path" });
  const running = latchkey.run(operation, { tenant: "t", key: "k", input: 1 }, async () => 1);
  await expect(running).rejects.toThrow('has keyScope "path", and only HTTP requests have a path');
});
