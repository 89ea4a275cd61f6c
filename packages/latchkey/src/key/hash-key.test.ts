import { createHmac } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { encodeFields } from "../fingerprint/length-prefixed.ts";
import { hashKey, hashKeyForLock, hashKeyForStorage } from "./hash-key.ts";

const secret = "0123456789abcdef0123456789abcdef";

type Identity = [tenant: string, scope: string, key: string];

// Literal values: a change of the algorithm would split logs, stored hashes and, in a rolling deploy, locks.
test("the hashes are what they were", () => {
  expect(hashKey(secret, "acme", "payments.create", "k-1")).toBe("5549a9901c19");
  expect(hashKeyForLock(secret, "acme", "payments.create", "k-1")).toBe(7143137614203862311n);
  expect(hashKeyForStorage(secret, "acme", "payments.create", "k-1")).toBe(
    "e7bd4a46b0fe4b3f83b9124f9f455e09b5fcbd70197794addc25ceda8a3c53f1",
  );
});

test.each([1, 31, 63, 64, 65, 200])("it is HMAC-SHA-256 with a secret of %i characters", (length) => {
  const [long, fields] = [
    "\u20acsecret".repeat(200).slice(0, length),
    ["acme", "payments.create", "k-1"] as const,
  ];
  for (const key of ["s".repeat(length), long]) {
    const hmac = createHmac("sha256", key);
    for (const chunk of encodeFields(["latchkey key storage", ...fields])) hmac.update(chunk);
    expect(hashKeyForStorage(key, ...fields)).toBe(hmac.digest("hex"));
  }
});

test("the secret may be bytes", () => {
  const bytes = new TextEncoder().encode(secret);
  expect(hashKey(bytes, "acme", "payments.create", "k-1")).toBe("5549a9901c19");
});

describe.each([
  ["hashKey", hashKey],
  ["hashKeyForLock", hashKeyForLock],
  ["hashKeyForStorage", hashKeyForStorage],
])("%s", (_name, hash) => {
  test.each<[Identity, Identity]>([
    [
      ["a|b", "c", "k"],
      ["a", "b|c", "k"],
    ],
    [
      ["ab", "c", "k"],
      ["a", "bc", "k"],
    ],
    [
      ["a", "b", "ck"],
      ["a", "bc", "k"],
    ],
    [
      ["", "a", "k"],
      ["a", "", "k"],
    ],
    [
      ["a\u0000b", "c", "k"],
      ["a", "b\u0000c", "k"],
    ],
    [
      ["\ud800", "c", "k"],
      ["\ud801", "c", "k"],
    ],
    [
      ["\ufffd", "c", "k"],
      ["\ud800", "c", "k"],
    ],
  ])("%j and %j differ", (left, right) => {
    expect(hash(secret, ...left)).not.toBe(hash(secret, ...right));
  });

  test("depends on the secret", () => {
    expect(hash("one", "t", "s", "k")).not.toBe(hash("two", "t", "s", "k"));
  });

  test("needs a secret", () => {
    expect(() => hash("", "t", "s", "k")).toThrow(TypeError);
    expect(() => hash(new Uint8Array(), "t", "s", "k")).toThrow(TypeError);
  });
});

test("lock numbers are signed 64-bit, of both signs, and not part of what logs show", () => {
  const signs = new Set<boolean>();
  fc.assert(
    fc.property(fc.string(), fc.string(), fc.string(), (tenant, scope, key) => {
      const lock = hashKeyForLock(secret, tenant, scope, key);
      expect(BigInt.asIntN(64, lock)).toBe(lock);
      signs.add(lock < 0n);
      const hex = BigInt.asUintN(64, lock).toString(16).padStart(16, "0");
      expect(hex.startsWith(hashKey(secret, tenant, scope, key))).toBe(false);
    }),
  );
  expect(signs.size).toBe(2);
});
