import { describe, expect, test } from "vitest";
import { createLatchkey, type LatchkeyEvent, StoreError } from "../index.ts";
import { type MemoryTransaction, memoryStore } from "../stores/memory.ts";
import type { Store } from "../stores/store.ts";
import { hashKey, hashKeyForStorage, storedKey } from "./hash-key.ts";

const secret = "0123456789abcdef0123456789abcdef";
const logSecret = "another secret, for events alone";
const given = { tenant: "acme", scope: "op", key: "canary@example.org" };
const hashed = hashKeyForStorage(secret, "acme", "op", given.key);

/** A service on a store that notes every key it is asked about. */
function serviceOn(
  store: Store<MemoryTransaction>,
  keySecret: string | undefined,
  seen: Set<string> = new Set(),
  fail: () => boolean = () => false,
) {
  const events: LatchkeyEvent[] = [];
  const noting = new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      return (...args: unknown[]) => {
        seen.add(JSON.stringify(args));
        return fail() ? Promise.reject(new StoreError("not_sent")) : Reflect.apply(value, target, args);
      };
    },
  });
  const latchkey = createLatchkey({
    store: noting,
    logSecret,
    onEvent: (event) => events.push(event),
    ...(keySecret === undefined ? {} : { keySecret }),
  });
  const operation = latchkey.operation("op", { execution: "lease" });
  const request = { tenant: "acme", key: given.key, input: 1 };
  const run = () => latchkey.run(operation, request, async () => "done");
  return { latchkey, operation, run, events, request };
}

describe("a service with keySecret", () => {
  test("recognises a repetition, and asks the store about the hash alone", async () => {
    const store = memoryStore();
    const seen = new Set<string>();
    const { run, events } = serviceOn(store, secret, seen);
    const first = await run();
    expect(first).toMatchObject({ kind: "executed", value: "done" });
    expect(await run()).toEqual({ ...first, kind: "replay" });
    expect((await store.read({ ...given, key: hashed })).record).toMatchObject({ key: hashed });
    expect((await store.read(given)).record).toBeNull();
    const asked = [...seen].join("\n");
    expect(asked).toContain(hashed);
    expect(asked).not.toContain(given.key);
    expect(JSON.stringify(events)).not.toContain(given.key);
    const keyHash = hashKey(logSecret, "acme", "op", hashed);
    expect(events.map((event) => "keyHash" in event && event.keyHash)).toEqual([keyHash, keyHash, keyHash]);
  });

  test("notices a key inside itself, misuse, and a store that fails, as it does without", async () => {
    let down = false;
    const { latchkey, operation, run, request, events } = serviceOn(
      memoryStore(),
      secret,
      new Set(),
      () => down,
    );
    const nested = latchkey.run(operation, request, () => run());
    await expect(nested).rejects.toMatchObject({ code: "nested-key" });
    const other = { ...request, key: "k-2" };
    await latchkey.run(operation, other, async () => "done");
    const misuse = latchkey.run(operation, { ...other, input: 2 }, async () => "done");
    expect(await misuse).toEqual({ kind: "key_misuse", because: "fingerprint" });
    down = true;
    await expect(run()).rejects.toBeInstanceOf(StoreError);
    expect(JSON.stringify(events)).not.toContain(given.key);
  });

  test("forgets the keys of another secret, and those that were kept in clear", async () => {
    const store = memoryStore();
    for (const keySecret of [undefined, secret, secret.replace("0", "1")]) {
      const { run } = serviceOn(store, keySecret);
      expect([(await run()).kind, (await run()).kind]).toEqual(["executed", "replay"]);
    }
  });

  test.each(["", "short", new Uint8Array(31)])("refuses the secret %j", (keySecret) => {
    expect(() => createLatchkey({ store: memoryStore(), keySecret })).toThrow(TypeError);
  });
});

test("a client that sends a hash as its key gets another key", () => {
  const keep = storedKey(secret);
  expect(keep({ ...given, key: hashed }).key).not.toBe(hashed);
  expect(keep(given)).toEqual({ ...given, key: hashed });
  expect(storedKey(undefined)(given)).toBe(given);
});
