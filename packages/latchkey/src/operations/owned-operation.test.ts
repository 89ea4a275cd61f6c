import { expect, test } from "vitest";
import { createLatchkey } from "../latchkey.ts";
import { memoryStore } from "../stores/memory.ts";

const define = (options: object) =>
  createLatchkey({ store: memoryStore() }).operation("op", options as never);
const run = async () => ({});

test("resume needs work that the operation owns, under a lease", () => {
  expect(() => define({ execution: "lease", leaseEnd: "resume" })).toThrow("needs `run`");
  expect(() => define({ execution: "transaction", leaseEnd: "resume", version: "1", run })).toThrow("lease");
  expect(define({ execution: "lease", leaseEnd: "resume", version: "1", run }).settings.leaseEnd).toBe(
    "resume",
  );
});

test("deferred needs work that the operation owns, and continues where it stopped", () => {
  const { execution, settings } = define({ execution: "deferred", version: "1", run });
  expect([execution, settings.leaseEnd, settings.pendingLimitMs]).toEqual(["deferred", "resume", 86_400_000]);
  const reconciled = define({ execution: "deferred", leaseEnd: "reconcile", version: "1", run });
  expect(reconciled.settings.leaseEnd).toBe("reconcile");
  expect(() => define({ execution: "deferred" })).toThrow("needs `run`");
});

test.each([
  [{ run, version: "1", execution: "deferred", leaseEnd: "rerun" }, "leaseEnd"],
  [{ run, version: "1", execution: "deferred", waitMs: 5 }, "waitMs"],
  [{ run, version: "1", execution: "deferred", pendingLimitMs: 0 }, "pendingLimitMs"],
  [{ run, version: "1", execution: "deferred", onStoreFailure: "run-unprotected" }, "onStoreFailure"],
  [{ run: "no function", version: "1" }, "run must be a function"],
  [{ run }, "version"],
  [{ run, version: "" }, "version"],
  [{ run, version: "v".repeat(201) }, "version"],
  [{ run, version: "1\0" }, "version"],
  [{ run, version: "1", execution: "lease", onStoreFailure: "run-unprotected" }, "onStoreFailure"],
  [{ run, version: "1", execution: "lease", leaseEnd: "restart" }, "leaseEnd"],
  [{ run, version: "1", execution: "lease", lookup: "no function" }, "lookup"],
])("refuses %j", (options, message) => {
  expect(() => define(options)).toThrow(message);
});

test("names of operations and of effects are unique", () => {
  const latchkey = createLatchkey({ store: memoryStore() });
  latchkey.operation("op", { version: "1", run });
  expect(() => latchkey.operation("op")).toThrow("defined twice");
  const none = { deduplication: "none", execute: async () => 1 } as const;
  latchkey.effect("e", none);
  expect(() => latchkey.effect("e", none)).toThrow("defined twice");
  expect([...latchkey.runtime.operations.keys(), ...latchkey.runtime.effects.keys()]).toEqual(["op", "e"]);
});

test("an effect or operation of another latchkey is refused", async () => {
  const [one, other] = [createLatchkey({ store: memoryStore() }), createLatchkey({ store: memoryStore() })];
  const foreign = other.effect("e", { deduplication: "none", execute: async () => 1 });
  const operation = one.operation("op", {
    execution: "lease",
    version: "1",
    run: async (input: number, attempt) => ({ body: await attempt.call("c", foreign, input) }),
  });
  const request = { tenant: "t", key: "k", input: 1 };
  await expect(one.run(operation, request)).rejects.toThrow("was not made by this latchkey");
  await expect(other.run(operation, request)).rejects.toThrow("on this latchkey");
});
