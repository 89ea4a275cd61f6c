import fc from "fast-check";
import { describe, expect, expectTypeOf, test } from "vitest";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import { anyText } from "../../../../test/support/text.ts";
import { storeConformance } from "../../../latchkey-conformance/src/store-conformance.ts";
import type { FinishedRecord } from "../engine/record.ts";
import { createLatchkey } from "../latchkey.ts";
import { hastenSeen } from "../operator/hasten.ts";
import { type MemoryStore, memoryStore } from "../stores/memory.ts";
import { cached } from "./cached.ts";
import { decodeCopy, encodeCopy } from "./entry.ts";
import { FarCache } from "./far-cache.ts";
import { FinishedCache } from "./finished-cache.ts";
import { NearCache } from "./near-cache.ts";

const key = { tenant: "t", scope: "pay", key: "k" };
const ready: FinishedRecord = {
  ...key,
  id: "01980000-0000-7000-8000-000000000000",
  operation: "pay",
  fingerprint: { version: 1, digest: new Uint8Array([1, 2, 3]) },
  principal: null,
  fence: { attempt: 1, token: "0".repeat(32) },
  createdAt: 1,
  trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  state: "completed",
  finishedAt: 2,
  expiresAt: 100,
  forgetAt: 200,
  answer: new Uint8Array([0, 255, 10]),
  lastErrorCode: null,
};

describe("a cached store keeps the store contract", () => {
  storeConformance({
    test,
    capabilities: memoryStore().capabilities,
    clock: "frozen",
    factory() {
      let now = Date.UTC(2026, 0, 1);
      const memory = memoryStore({ now: () => now });
      return {
        store: cached(memory, null, { near: true }),
        secondStore: cached(memory, null, { near: true }),
        advance(milliseconds) {
          now += milliseconds;
        },
        business: {
          write: (tx, row) => tx.insert("orders", { row }),
          committedRows: async () => memory.rows("orders").map(({ row }) => String(row)),
        },
        close() {},
      };
    },
  });
});

describe("a copy", () => {
  const bytes = fc.uint8Array({ maxLength: 200 });
  const text = anyText({ maxLength: 40 }).filter((one) => one.isWellFormed());
  const records = fc.record({
    tenant: text,
    scope: text,
    key: text,
    principal: fc.option(text),
    answer: fc.option(bytes),
    digest: bytes,
    createdAt: fc.double({ noNaN: true, noDefaultInfinity: true }),
    untilMs: fc.double({ noNaN: true, noDefaultInfinity: true }),
  });

  test("decodes to what was encoded, for any content", () => {
    fc.assert(
      fc.property(records, ({ digest, untilMs, ...parts }) => {
        const record = { ...ready, ...parts, fingerprint: { version: 1, digest } };
        fc.pre(!Object.is(parts.createdAt, -0) && !Object.is(untilMs, -0));
        expect(decodeCopy(encodeCopy({ record, untilMs }, null), record, null)).toEqual({ record, untilMs });
      }),
    );
  });

  test("with any byte changed or missing is rejected", () => {
    const whole = encodeCopy({ record: ready, untilMs: 50 }, null);
    for (let at = 0; at < whole.length; at++) {
      const changed = Buffer.from(whole);
      changed[at] = (changed[at] ?? 0) ^ 1;
      expect(decodeCopy(changed, key, null), `byte ${at}`).toBeNull();
    }
    for (let length = 0; length < whole.length; length++) {
      expect(decodeCopy(whole.subarray(0, length), key, null), `length ${length}`).toBeNull();
    }
  });

  test("of another key or tenant, or with another secret, is rejected", () => {
    const secret = "s".repeat(32);
    const sealed = encodeCopy({ record: ready, untilMs: 50 }, secret);
    expect(decodeCopy(sealed, key, secret)?.record).toEqual(ready);
    expect(decodeCopy(sealed, { ...key, tenant: "u" }, secret)).toBeNull();
    expect(decodeCopy(sealed, { ...key, scope: "pa", key: "yk" }, secret)).toBeNull();
    expect(decodeCopy(sealed, key, "t".repeat(32))).toBeNull();
    expect(decodeCopy(sealed, key, null)).toBeNull();
    expect(decodeCopy(encodeCopy({ record: ready, untilMs: 50 }, null), key, secret)).toBeNull();
  });
});

describe("the cache in this process", () => {
  const copyOf = (name: string, size = 3) => ({
    record: { ...ready, key: name, answer: new Uint8Array(size) },
    untilMs: 100,
  });
  const keyOf = (name: string) => ({ ...key, key: name });

  test("drops the least recently used copies, by count and by size", () => {
    const near = new NearCache({ entries: 2, bytes: 10_000, maxAgeMs: 1_000 });
    for (const name of ["a", "b"]) near.set(copyOf(name), 100, 0);
    expect(near.get(keyOf("a"), 1)).not.toBeNull();
    near.set(copyOf("c"), 100, 1);
    expect(["a", "b", "c"].map((name) => near.get(keyOf(name), 1) !== null)).toEqual([true, false, true]);
    near.set(copyOf("d", 7_500), 100, 1);
    expect(["a", "c", "d"].map((name) => near.get(keyOf(name), 1) !== null)).toEqual([false, true, true]);
    near.set(copyOf("e", 20_000), 100, 1);
    expect(["c", "d", "e"].map((name) => near.get(keyOf(name), 1) !== null)).toEqual([true, true, false]);
  });

  test("returns no copy past its expiry or its maximum age", () => {
    const near = new NearCache({ entries: 2, bytes: 10_000, maxAgeMs: 40 });
    near.set(copyOf("a"), 30, 1_000);
    near.set(copyOf("b"), 90, 1_000);
    expect(near.get(keyOf("a"), 1_029)).toMatchObject({ leftMs: 1 });
    expect(near.get(keyOf("a"), 1_030)).toBeNull();
    // The answer has 90 ms left, but the copy's maximum age is 40 ms.
    expect(near.get(keyOf("b"), 1_039)).toMatchObject({ leftMs: 1, copy: { untilMs: 50 } });
    expect(near.get(keyOf("b"), 1_040)).toBeNull();
  });
});

describe("requests", () => {
  function setUp() {
    const ports = manualPorts();
    let aheadMs = 0;
    const memory = memoryStore({ ports, now: () => ports.clock.wallMs() + aheadMs });
    const asked: string[] = [];
    const watched: MemoryStore = {
      ...memory,
      read: (one) => {
        asked.push("read");
        return memory.read(one);
      },
      transactions: memory.transactions && {
        ...memory.transactions,
        run: (request, work) => {
          asked.push("transaction");
          return memory.transactions?.run(request, work) as never;
        },
      },
    };
    const store = cached(watched, null, { near: { maxAgeMs: 1_000_000 }, ports });
    const latchkey = createLatchkey({ store, ports });
    const pay = latchkey.operation("pay", { writes: "none", retentionMs: 10_000, forgetAfterMs: 20_000 });
    const send = latchkey.operation("send", { execution: "lease" });
    let runs = 0;
    return {
      asked: () => asked.splice(0),
      memory,
      ports,
      store,
      runs: () => runs,
      setStoreAhead: (ms: number) => {
        aheadMs = ms;
      },
      pay: (input: unknown, principal = "", name = "k") =>
        latchkey.run(pay, { tenant: "t", key: name, input, ...(principal && { principal }) }, async () => ({
          run: ++runs,
        })),
      send: () => latchkey.run(send, { tenant: "t", key: "k", input: 1 }, async () => ({ run: ++runs })),
    };
  }

  test("with a finished key are answered without the store, and still checked for misuse of the key", async () => {
    const { pay, asked, runs } = setUp();
    expect(await pay(1)).toMatchObject({ kind: "executed" });
    expect(await pay(1)).toMatchObject({ kind: "replay", value: { run: 1 } });
    expect(asked()).toContain("transaction");
    expect(await pay(1)).toMatchObject({ kind: "replay", value: { run: 1 } });
    expect(await pay(2)).toMatchObject({ kind: "key_misuse", because: "fingerprint" });
    expect(await pay(1, "somebody")).toMatchObject({ kind: "key_misuse", because: "principal" });
    expect(asked()).toEqual([]);
    expect(runs()).toBe(1);
  });

  test("under a lease are answered without the store, too", async () => {
    const { send, asked } = setUp();
    expect(await send()).toMatchObject({ kind: "executed" });
    expect(await send()).toMatchObject({ kind: "replay" });
    asked();
    expect(await send()).toMatchObject({ kind: "replay", value: { run: 1 } });
    expect(asked()).toEqual([]);
  });

  test("never get an answer that has expired", async () => {
    const { pay, asked, ports } = setUp();
    await pay(1);
    await pay(1);
    await ports.clock.advance(9_999);
    asked();
    expect(await pay(1)).toMatchObject({ kind: "replay" });
    expect(asked()).toEqual([]);
    await ports.clock.advance(1);
    expect(await pay(1)).toMatchObject({ kind: "expired" });
    await ports.clock.advance(10_000);
    expect(await pay(1)).toMatchObject({ kind: "executed", value: { run: 2 } });
  });

  test("never get an answer that has expired by the store's clock, once that clock was read", async () => {
    const { pay, setStoreAhead } = setUp();
    await pay(1);
    await pay(1, "", "other");
    expect(await pay(1)).toMatchObject({ kind: "replay" });
    setStoreAhead(10_000);
    await pay(1, "", "other");
    expect(await pay(1)).toMatchObject({ kind: "expired" });
  });

  test("with a key whose copies were removed read the store again", async () => {
    const { pay, asked, store } = setUp();
    await pay(1);
    await pay(1);
    asked();
    await store.forget({ tenant: "t", scope: "pay", key: "k" });
    expect(await pay(1)).toMatchObject({ kind: "replay" });
    expect(asked()).not.toEqual([]);
  });

  test("with a key that an operator forgot run as new", async () => {
    const { pay, asked, memory, ports, store } = setUp();
    await pay(1);
    await pay(1);
    asked();
    expect(await pay(1)).toMatchObject({ kind: "replay", value: { run: 1 } });
    expect(asked(), "served from the copy").toEqual([]);
    const { record } = await memory.read({ tenant: "t", scope: "pay", key: "k" });
    const seen = { recordId: record?.id ?? "", attempt: 1 };
    const by = { operator: "ada", reason: "undone" };
    const forgotten = await hastenSeen({ store, ports }, seen, { event: "forget", mayRunAgain: true }, by);
    expect(forgotten).toMatchObject({ kind: "done" });
    for (const kind of ["executed", "replay"]) {
      expect(await pay(1)).toMatchObject({ kind, value: { run: 2 } });
    }
  });
});

describe("copies still on their way", () => {
  const reading = { record: { ...ready, expiresAt: 1_000 }, now: 0 };
  /** A cache in Redis whose replies the test releases. */
  function setUp() {
    const ports = manualPorts();
    const replies: PromiseWithResolvers<unknown>[] = [];
    const link = {
      cluster: false,
      call() {
        const reply = Promise.withResolvers<unknown>();
        replies.push(reply);
        return reply.promise;
      },
    };
    const options = { link, clock: ports.clock, prefix: "p", secret: null, timeoutMs: 900, maxAgeMs: 10_000 };
    const far = new FarCache({ ...options, onError: () => {} });
    const near = new NearCache({ entries: 10, bytes: 1_000_000, maxAgeMs: 10_000 });
    const only = { clock: ports.clock, near, far: null, maxAgeMs: 10_000 };
    return {
      ports,
      replies,
      near,
      both: new FinishedCache({ ...only, far }),
      nearAlone: new FinishedCache(only),
    };
  }

  test("are not kept once their key was removed", async () => {
    const { nearAlone: cache } = setUp();
    const from = await cache.begin(key);
    await cache.forget(key);
    await cache.keep(reading, from);
    expect(await cache.look(key)).toBeNull();
    await cache.keep(reading, await cache.begin(key));
    expect(await cache.look(key)).not.toBeNull();
  });

  test("from Redis are not kept once their key was removed", async () => {
    const { both: cache, replies, near } = setUp();
    const looking = cache.look(key);
    const forgetting = cache.forget(key);
    replies[1]?.resolve(1);
    await forgetting;
    replies[0]?.resolve([0, encodeCopy({ record: reading.record, untilMs: 1_000 }, null), 1_000]);
    await looking;
    expect(near.get(key, 0)).toBeNull();
  });

  test("have less time left by as long as they were on their way", async () => {
    const { both: cache, replies, ports, near } = setUp();
    const bytes = encodeCopy({ record: reading.record, untilMs: 1_000 }, null);
    const looking = cache.look(key);
    await ports.clock.advance(300);
    replies[0]?.resolve([0, bytes, 400]);
    expect(await looking).toMatchObject({ now: 900 });
    expect(near.get(key, ports.clock.monotonicMs())).toMatchObject({ leftMs: 100 });
    near.delete(key);
    const late = cache.look(key);
    await ports.clock.advance(500);
    replies[1]?.resolve([0, bytes, 400]);
    expect(await late).toBeNull();
  });
});

describe("options", () => {
  test.each([
    [{}, "needs `near`"],
    [{ near: { entries: 0 } }, "near.entries"],
    [{ near: { bytes: 0.5 } }, "near.bytes"],
    [{ near: { maxAgeMs: -1 } }, "near.maxAgeMs"],
    [{ near: true, maxAgeMs: 0 }, "maxAgeMs"],
    [{ near: true, timeoutMs: Number.NaN }, "timeoutMs"],
    [{ near: true, prefix: "a b" }, "prefix"],
    [{ near: true, prefix: "{a}" }, "prefix"],
    [{ near: true, secret: "short" }, "secret"],
  ] as const)("%j is refused", (options, named) => {
    expect(() => cached(memoryStore(), null, options)).toThrow(TypeError);
    expect(() => cached(memoryStore(), null, options)).toThrow(named);
  });

  test("a `redis` that is not a client is refused", () => {
    expect(() => cached(memoryStore(), {} as never)).toThrow(TypeError);
  });

  test("keep the store's own methods and types", () => {
    const store = cached(memoryStore(), null, { near: true });
    expectTypeOf(store.rows).toEqualTypeOf<MemoryStore["rows"]>();
    expect(store.rows("business")).toEqual([]);
  });
});
