import { describe, expect, test } from "vitest";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import { createLatchkey } from "../latchkey.ts";
import { memoryStore } from "../stores/memory.ts";
import type { LatchkeyEvent } from "../telemetry/events.ts";
import { leaseRescuer } from "./lease-rescuer.ts";
import { recordCleaner } from "./record-cleaner.ts";

function setUp() {
  const ports = manualPorts();
  const store = memoryStore({ ports });
  const events: LatchkeyEvent[] = [];
  const latchkey = createLatchkey({ store, ports, onEvent: (event) => events.push(event) });
  return { ports, store, latchkey, events };
}

/** Leaves an attempt behind whose owner is dead. */
async function abandonAttempt(latchkey: ReturnType<typeof setUp>["latchkey"], key: string) {
  await latchkey.runtime.store.create(
    {
      tenant: "t",
      scope: "op",
      key,
      id: latchkey.runtime.ports.random.uuid(0),
      operation: "op",
      fingerprint: { version: 1, digest: new Uint8Array(32) },
      principal: null,
      fence: { attempt: 1, token: latchkey.runtime.ports.random.token() },
    },
    null,
    { leaseMs: 1_000, leaseEnd: "reconcile", attemptsMax: 5, abandonAfterMs: 10_000 },
  );
}

describe("a service", () => {
  test("runs at its interval until it is stopped, and stopping twice is fine", async () => {
    const { ports, latchkey, events } = setUp();
    const cleaner = recordCleaner(latchkey, { intervalMs: 1_000 });
    cleaner.start();
    cleaner.start();
    await ports.clock.advance(2_500);
    const rounds = events.filter((event) => event.type === "cleaned").length;
    expect(rounds).toBe(3);
    await cleaner.stop();
    await cleaner.stop();
    await ports.clock.advance(10_000);
    expect(events.filter((event) => event.type === "cleaned")).toHaveLength(rounds);
  });

  test("resolves every `stop` only when the current batch is done", async () => {
    const { ports, latchkey } = setUp();
    const { store } = latchkey.runtime;
    const batch = Promise.withResolvers<void>();
    const slow = createLatchkey({
      ports,
      store: { ...store, clean: (limit) => batch.promise.then(() => store.clean(limit)) },
    });
    const cleaner = recordCleaner(slow, { intervalMs: 1_000 });
    cleaner.start();
    const stopped: string[] = [];
    const both = ["first", "second"].map((name) => cleaner.stop().then(() => stopped.push(name)));
    await ports.clock.advance(5_000);
    expect(stopped).toEqual([]);
    batch.resolve();
    await Promise.all(both);
    expect(stopped).toHaveLength(2);
  });

  test("survives an error of one round", async () => {
    const { ports, latchkey, events } = setUp();
    let failing = true;
    const store = latchkey.runtime.store;
    const flaky = createLatchkey({
      ports,
      onEvent: (event) => events.push(event),
      store: {
        ...store,
        clean: (limit) => (failing ? Promise.reject(new Error("down")) : store.clean(limit)),
      },
    });
    const cleaner = recordCleaner(flaky, { intervalMs: 1_000 });
    cleaner.start();
    await ports.clock.advance(1_000);
    failing = false;
    await ports.clock.advance(1_000);
    await cleaner.stop();
    const types = events.map((event) => event.type);
    expect(types).toContain("service_error");
    expect(types).toContain("cleaned");
  });

  test("refuses invalid options", () => {
    const { latchkey } = setUp();
    expect(() => recordCleaner(latchkey, { intervalMs: 0 })).toThrow(TypeError);
    expect(() => leaseRescuer(latchkey, { batchSize: 1.5 })).toThrow("batchSize");
    // Node fires a timer of more than 2^31 - 1 milliseconds at once, so the loop would never pause.
    expect(() => leaseRescuer(latchkey, { intervalMs: 2_000_000_000 })).toThrow("intervalMs");
  });
});

describe("the record-cleaner", () => {
  test("continues at once while there is more than a batch", async () => {
    const { ports, latchkey, store, events } = setUp();
    const order = latchkey.operation("orders", { retentionMs: 1_000 });
    for (let index = 0; index < 5; index++) {
      await latchkey.run(order, { tenant: "t", key: `k${index}`, input: index }, ({ tx }) =>
        tx.insert("orders", { index }),
      );
    }
    await ports.clock.advance(1_000);
    const cleaner = recordCleaner(latchkey, { batchSize: 2, intervalMs: 60_000 });
    cleaner.start();
    await ports.clock.advance(0);
    await cleaner.stop();
    const cleaned = events.filter((event) => event.type === "cleaned");
    expect(cleaned.reduce((sum, event) => sum + event.forgotten, 0)).toBe(5);
    expect((await store.read({ tenant: "t", scope: "orders", key: "k0" })).record).toBeNull();
    expect(store.rows("orders")).toHaveLength(5);
  });
});

describe("the lease-rescuer", () => {
  test("settles attempts that may not be taken over, and reports them without their keys", async () => {
    const { ports, latchkey, store, events } = setUp();
    await abandonAttempt(latchkey, "secret-key");
    const rescuer = leaseRescuer(latchkey);
    expect(await rescuer.runOnce()).toEqual({ found: 0, rescued: 0, resumed: 0 });
    await ports.clock.advance(1_000);
    expect(await rescuer.runOnce()).toEqual({ found: 1, rescued: 1, resumed: 0 });
    expect(await rescuer.runOnce()).toEqual({ found: 0, rescued: 0, resumed: 0 });
    const { record } = await store.read({ tenant: "t", scope: "op", key: "secret-key" });
    expect(record).toMatchObject({ state: "unknown", lastErrorCode: "lease-ended" });
    expect(JSON.stringify(events)).toContain("lease_rescued");
    expect(JSON.stringify(events)).not.toContain("secret-key");
  });

  test("works in batches", async () => {
    const { ports, latchkey } = setUp();
    for (const key of ["a", "b", "c"]) await abandonAttempt(latchkey, key);
    await ports.clock.advance(1_000);
    const rescuer = leaseRescuer(latchkey, { batchSize: 2 });
    expect(await rescuer.runOnce()).toEqual({ found: 2, rescued: 2, resumed: 0 });
    expect(await rescuer.runOnce()).toEqual({ found: 1, rescued: 1, resumed: 0 });
  });

  test("continues when one record cannot be settled, and reports the error", async () => {
    const { ports, store, latchkey, events } = setUp();
    for (const key of ["a", "b", "c"]) await abandonAttempt(latchkey, key);
    await ports.clock.advance(1_000);
    const partly = createLatchkey({
      ports,
      onEvent: (event) => events.push(event),
      store: {
        ...store,
        giveUp: async (key, ...rest) => {
          if (key.key === "a") throw new Error("down");
          return store.giveUp(key, ...rest);
        },
      },
    });
    expect(await leaseRescuer(partly).runOnce()).toEqual({ found: 3, rescued: 2, resumed: 0 });
    expect(events).toContainEqual(
      expect.objectContaining({ type: "service_error", service: "lease-rescuer" }),
    );
  });
});
