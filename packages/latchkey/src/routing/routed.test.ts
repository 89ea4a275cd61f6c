/** What a routed store adds to the store contract: routing, shares, and stores that are down. */
import { describe, expect, test } from "vitest";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import {
  deliveryCommit,
  deliveryRequest,
} from "../../../latchkey-conformance/src/store-conformance/deliver-arrange.ts";
import { newEffect } from "../../../latchkey-conformance/src/store-conformance/outbox-arrange.ts";
import {
  commitOf,
  requestFor,
} from "../../../latchkey-conformance/src/store-conformance/transactions-arrange.ts";
import { StoreError } from "../errors.ts";
import { leaseTerms } from "../execution/lease/admit-lease.ts";
import { createLatchkey } from "../latchkey.ts";
import { type MemoryTransaction, memoryStore } from "../stores/memory.ts";
import type { OutboxEffect } from "../stores/outbox.ts";
import type { Store } from "../stores/store.ts";
import type { LatchkeyEvent } from "../telemetry/events.ts";
import { faultyStore } from "../testing/index.ts";
import { routedStore } from "./routed.ts";

type Tx = MemoryTransaction;
const tenants = ["ada", "bob", "eve"] as const;
type Tenant = (typeof tenants)[number];

/** A memory store for each tenant; calls of those in `down` fail, either all of them or one kind. */
function setUp() {
  const ports = manualPorts();
  const down = new Set<string>();
  const calls: string[] = [];
  const own = Object.fromEntries(tenants.map((name) => [name, memoryStore({ ports })])) as Record<
    Tenant,
    ReturnType<typeof memoryStore>
  >;
  const seen = Object.fromEntries(
    tenants.map((name) => {
      const { store } = faultyStore<Tx>(own[name], ({ port }) => {
        calls.push(`${name} ${port}`);
        if (down.has(`${name} ${port} hangs`)) return new Promise(() => {});
        return down.has(name) || down.has(`${name} ${port}`) ? "not_sent" : "proceed";
      });
      return [name, { ...store, hints: own[name].hints }];
    }),
  ) as Record<Tenant, Store<Tx>>;
  const errors: string[] = [];
  const store = routedStore<Tx>({
    route: (tenant) => {
      const found = seen[tenant as Tenant];
      if (found === undefined) throw new Error(`no tenant ${tenant}`);
      return found;
    },
    stores: () => Object.values(seen),
    onError: (error, { name }) => errors.push(`${name}: ${error}`),
    ports,
  });
  const events: LatchkeyEvent[] = [];
  const start = (sending?: Promise<void>) => {
    const latchkey = createLatchkey<Tx>({ store, ports, onEvent: (event) => events.push(event) });
    const sent: string[] = [];
    let mailed = 0;
    /** Its starts and ends are written in batches. */
    const mail = latchkey.effect("mail", {
      deduplication: "none",
      execute: async () => {
        mailed += 1;
        await sending;
        return null;
      },
    });
    const receipt = latchkey.effect("receipt", {
      deduplication: "provider",
      dedupeWindowMs: 60_000,
      execute: async ({ to }: { to: string }) => {
        sent.push(to);
        await sending;
        return null;
      },
      onDelivered: async ({ input }, tx) => tx.insert("delivered", { to: input.to }),
    });
    const order = latchkey.operation("order");
    const report = latchkey.operation("report", {
      execution: "deferred",
      version: "1",
      run: async (input: { name: string }) => ({ status: 201, body: input }),
    });
    const place = (tenant: string, key: string) =>
      latchkey.run(order, { tenant, key, input: null }, async ({ tx, attempt }) => {
        await tx.insert("orders", { key });
        attempt.enqueue(receipt, { to: `${tenant} ${key}` });
        attempt.enqueue(mail, {});
      });
    const submit = (tenant: string, name: string) =>
      latchkey.run(report, { tenant, key: name, input: { name } });
    return { latchkey, sent, mailed: () => mailed, place, submit, report };
  };
  return { ports, store, own, down, calls, errors, events, start };
}

describe("each tenant's own store", () => {
  test("has its rows, records, effects, and what its deliveries write", async () => {
    const { own, start } = setUp();
    const { latchkey, place, sent } = start();
    for (const tenant of tenants) expect(await place(tenant, "k")).toMatchObject({ kind: "executed" });
    expect(await place("bob", "k")).toMatchObject({ kind: "replay" });
    await latchkey.work();
    for (const tenant of tenants) {
      expect(own[tenant].rows("orders")).toEqual([{ key: "k" }]);
      expect(own[tenant].rows("delivered")).toEqual([{ to: `${tenant} k` }]);
      expect((await own[tenant].read({ tenant, scope: "order", key: "k" })).record?.state).toBe("completed");
    }
    expect(sent.sort()).toEqual(["ada k", "bob k", "eve k"]);
  });

  test("is the only one that a request calls", async () => {
    const { calls, start } = setUp();
    await start().place("bob", "k");
    expect(calls.length).toBeGreaterThan(0);
    expect(calls.filter((call) => !call.startsWith("bob "))).toEqual([]);
  });

  test("runs a delivery's transaction, also for an effect that another process claimed", async () => {
    const { own, store } = setUp();
    const key = { tenant: "eve", scope: "order", key: "k" };
    const effect = newEffect();
    await store.transactions?.run(requestFor(key), async () => commitOf(key, { effects: [effect] }));
    const want = { effect: effect.effect, limit: 1, starts: true };
    const [claimed] = (await own.eve.outbox?.claim([want], "0".repeat(32), 60_000)) ?? [];
    if (claimed === undefined) throw new Error("the effect is there");
    const outcome = await store.transactions?.deliver(deliveryRequest(claimed), async ({ tx }) => {
      await tx.insert("delivered", { to: "eve" });
      return deliveryCommit();
    });
    expect(outcome?.kind).toBe("committed");
    expect(own.eve.rows("delivered")).toEqual([{ to: "eve" }]);
    expect(own.ada.rows("delivered")).toEqual([]);
  });

  test("is closed with the routed store", async () => {
    const closed: Tenant[] = [];
    const stores = tenants.map((name) => ({
      ...memoryStore(),
      close: async () => void closed.push(name),
    }));
    const store = routedStore<Tx>({ route: () => stores[0] as Store<Tx>, stores: () => stores });
    await store.close?.();
    expect(closed).toEqual([...tenants]);
  });

  test("is missing: the request fails with the error of `route`, and nothing runs", async () => {
    const { start, calls } = setUp();
    await expect(start().place("mallory", "k")).rejects.toThrow("no tenant mallory");
    expect(calls).toEqual([]);
  });
});

describe("a store that is down", () => {
  test("after a while fails its own tenants' requests at once, but no others", async () => {
    const { down, start, calls, ports } = setUp();
    const { place } = start();
    down.add("eve");
    for (let at = 0; at < 5; at++) {
      await expect(place("eve", `k${at}`)).rejects.toMatchObject({ code: "store-unavailable" });
    }
    calls.length = 0;
    await expect(place("eve", "k")).rejects.toMatchObject({ certainty: "not_sent", retryAfterMs: 1_000 });
    expect(calls, "it was not asked").toEqual([]);
    expect(await place("ada", "k")).toMatchObject({ kind: "executed" });
    down.delete("eve");
    await ports.clock.advance(1_000);
    expect(await place("eve", "k")).toMatchObject({ kind: "executed" });
  });

  test("is reported, does not keep workers from the others, and is served once it is back", async () => {
    const { own, down, errors, start, ports } = setUp();
    const { latchkey, place, submit } = start();
    for (const tenant of tenants) {
      await place(tenant, "k");
      await submit(tenant, "r");
    }
    down.add("eve");
    const worker = latchkey.startWorker();
    await ports.clock.advance(3_000);
    const states = async () =>
      Promise.all(
        tenants.map(
          async (tenant) =>
            (await own[tenant].read({ tenant, scope: "report", key: "r" })).record?.state ?? null,
        ),
      );
    expect(await states()).toEqual(["completed", "completed", "pending"]);
    expect(own.eve.rows("delivered")).toEqual([]);
    expect(errors.length).toBeGreaterThan(0);
    down.delete("eve");
    await ports.clock.advance(5_000);
    expect(await states()).toEqual(["completed", "completed", "completed"]);
    expect(own.eve.rows("delivered")).toEqual([{ to: "eve k" }]);
    expect((await worker.health()).ok).toBe(true);
    await worker.stop();
  });

  test("that hangs delays the start of its own deliveries, but not of others in the same batch", async () => {
    const { down, start, ports } = setUp();
    const { latchkey, place, mailed } = start();
    for (const key of ["a", "b", "c"]) for (const tenant of tenants) await place(tenant, key);
    down.add("eve startEffects hangs");
    const worker = latchkey.startWorker();
    await ports.clock.advance(100);
    expect(mailed()).toBe(6);
    down.clear();
    await ports.clock.advance(60_000);
    expect(mailed()).toBe(9);
    await worker.stop();
  });

  test("fails the end of its own deliveries, but not of others in the same batch", async () => {
    const { own, down, start, ports } = setUp();
    const sending = Promise.withResolvers<void>();
    const { latchkey, place, sent, mailed } = start(sending.promise);
    for (const tenant of tenants) await place(tenant, "k");
    const worker = latchkey.startWorker();
    await ports.clock.advance(0);
    expect(sent).toHaveLength(3);
    down.add("eve");
    sending.resolve();
    await ports.clock.advance(100);
    const filter = { state: "delivered", effect: null, tenant: null, limit: 10, after: null } as const;
    const delivered = async (tenant: Tenant) => (await own[tenant].outbox?.list(filter))?.length;
    expect([await delivered("ada"), await delivered("bob"), await delivered("eve")]).toEqual([2, 2, 0]);
    down.delete("eve");
    await ports.clock.advance(60_000);
    expect(await delivered("eve")).toBe(2);
    expect(mailed(), "none was sent twice").toBe(3);
    expect(own.eve.rows("delivered")).toHaveLength(1);
    await worker.stop();
  });

  test("makes a list over all stores fail rather than be incomplete; a tenant's own list still works", async () => {
    const { store, down } = setUp();
    down.add("eve");
    const filter = { state: "unknown", operation: null, limit: 10, after: null } as const;
    await expect(store.settlement.list({ ...filter, tenant: null })).rejects.toBeInstanceOf(StoreError);
    expect(await store.settlement.list({ ...filter, tenant: "ada" })).toEqual([]);
  });

  test("does not hide an id in another store, and fails a look-up that finds none", async () => {
    const { store, down, start } = setUp();
    await start().submit("bob", "r");
    const { record } = await store.read({ tenant: "bob", scope: "report", key: "r" });
    const id = record?.id ?? "";
    down.add("eve");
    expect((await store.readById(null, id)).record?.tenant).toBe("bob");
    down.clear();
    down.add("bob");
    await expect(store.readById(null, id)).rejects.toBeInstanceOf(StoreError);
  });

  test("does not make `verify` fail, unless all are down", async () => {
    const { store, down } = setUp();
    down.add("eve");
    await store.verify();
    for (const tenant of tenants) down.add(tenant);
    await expect(store.verify()).rejects.toBeInstanceOf(StoreError);
  });
});

describe("capacity", () => {
  async function deferred(counts: Readonly<Record<Tenant, number>>) {
    const world = setUp();
    const { submit, report } = world.start();
    for (const tenant of tenants)
      for (let at = 0; at < counts[tenant]; at++) await submit(tenant, `${tenant}${at}`);
    let tokens = 0;
    const claim = async (room: number) => {
      const names = Array.from({ length: room }, () => String(tokens++).padStart(32, "0"));
      const want = { operation: "report", tokens: names, terms: leaseTerms(report) };
      const records = await world.store.claimPending([want]);
      expect(new Set(records.map(({ fence }) => fence.token)).size).toBe(records.length);
      return Object.fromEntries(
        tenants.map((tenant) => [tenant, records.filter((record) => record.tenant === tenant).length]),
      );
    };
    return { ...world, claim };
  }

  test("is shared equally, and what one store leaves goes to the others", async () => {
    const { claim } = await deferred({ ada: 100, bob: 2, eve: 100 });
    // Ten among three is four, three and three; what the second store leaves goes to the first.
    expect(await claim(10)).toEqual({ ada: 5, bob: 2, eve: 3 });
    expect(await claim(10)).toMatchObject({ bob: 0 });
    expect(await claim(190)).toEqual({ ada: 95 - 5, bob: 0, eve: 97 - 5 });
  });

  test("for one goes to each store in turn, so that a backlog does not hide other work", async () => {
    const { claim } = await deferred({ ada: 100, bob: 1, eve: 1 });
    const got = [await claim(1), await claim(1), await claim(1)];
    expect(got.map((one) => Object.values(one).reduce((sum, count) => sum + count, 0))).toEqual([1, 1, 1]);
    const all = (tenant: Tenant) => got.reduce((sum, one) => sum + (one[tenant] ?? 0), 0);
    expect([all("ada"), all("bob"), all("eve")]).toEqual([1, 1, 1]);
  });
});

test("pages over several stores have no gaps and no repetitions", async () => {
  const { store, ports } = setUp();
  const ids: string[] = [];
  for (let at = 0; at < 9; at++) {
    const key = { tenant: tenants[at % 3] ?? "", scope: "order", key: `k${at}` };
    const effect = newEffect();
    await store.transactions?.run(requestFor(key), async () => commitOf(key, { effects: [effect] }));
    ids.push(effect.id);
    if (at % 2 === 0) await ports.clock.advance(1);
  }
  const found: string[] = [];
  const pageAfter = async (after: OutboxEffect | null): Promise<readonly OutboxEffect[]> =>
    (await store.outbox?.list({ state: "pending", effect: null, tenant: null, limit: 2, after })) ?? [];
  for (let page = await pageAfter(null); page.length > 0; page = await pageAfter(page.at(-1) ?? null)) {
    found.push(...page.map(({ id }) => id));
  }
  expect(found.sort()).toEqual(ids.sort());
});

describe("mistakes are refused", () => {
  const one = memoryStore();
  const route = () => one;

  test.each([
    [{ stores: () => [one] }, "route"],
    [{ route }, "stores"],
    [{ route, stores: () => [] }, "at least one"],
    [{ route, stores: () => [one], store: one }, '"store"'],
    [{ route, stores: () => [one], circuitBreaker: { openMs: 0 } }, "openMs"],
    [
      {
        route,
        stores: () => [one, { ...memoryStore(), capabilities: { ...one.capabilities, transactions: false } }],
      },
      "transactions",
    ],
  ])("%#: %s", (options, message) => {
    expect(() => (routedStore as (given: object) => unknown)(options)).toThrow(message);
  });

  test("a store that `stores` does not list", async () => {
    const store = routedStore({ route: () => memoryStore(), stores: () => [one] });
    await expect(store.read({ tenant: "t", scope: "s", key: "k" })).rejects.toThrow("does not list");
  });

  test("a store that is added later and has fewer capabilities", async () => {
    const stores: Store<Tx>[] = [one];
    const store = routedStore<Tx>({ route, stores: () => stores });
    stores.push({
      ...memoryStore(),
      capabilities: { ...one.capabilities, inProgress: "at-commit" },
    });
    await expect(store.verify()).rejects.toThrow("inProgress at-commit");
  });

  test("a circuit breaker on the latchkey", () => {
    const store = routedStore({ route, stores: () => [one] });
    expect(() => createLatchkey({ store, circuitBreaker: {} })).toThrow("options of the store");
    expect(() => createLatchkey({ store, circuitBreaker: false })).not.toThrow();
  });
});
