import { expect, test } from "vitest";
import { guardOf, type LatchkeyRecord, sameFence } from "./record.ts";

const fence = { attempt: 2, token: "a" };

test("a guard names the life, its state and its fence, and nothing else", () => {
  const record: LatchkeyRecord = {
    tenant: "t",
    scope: "s",
    key: "k",
    id: "id",
    operation: "s",
    fingerprint: { version: 1, digest: new Uint8Array([1]) },
    principal: "p",
    fence,
    createdAt: 1,
    state: "unknown",
    lastErrorCode: null,
    reconcileAfter: null,
  };
  expect(guardOf(record)).toStrictEqual({ id: "id", state: "unknown", fence });
});

test.each([
  [{ attempt: 2, token: "a" }, true],
  [{ attempt: 3, token: "a" }, false],
  [{ attempt: 2, token: "b" }, false],
  [{ attempt: 3, token: "b" }, false],
])("the fence of attempt 2 and token a is that of %o: %s", (other, same) => {
  expect(sameFence(fence, other)).toBe(same);
});
