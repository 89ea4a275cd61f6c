/** The store contract over two Postgres databases; each tenant's rows are in its own database. */

import type pg from "pg";
import { beforeAll, describe, expect, test } from "vitest";
import { committedRows, openPool, prepareDatabase, type TestTx } from "../../../../test/postgres/harness.ts";
import { emptyTables } from "../../../../test/support/empty-tables.ts";
import { patient } from "../../../../test/support/patience.ts";
import { type PrivatePostgres, startPostgres } from "../../../../test/support/private-postgres.ts";
import { onRelease } from "../../../../test/support/resources.ts";
import { freshDatabase } from "../../../../test/support/shared-postgres.ts";
import { isThorough } from "../../../../test/support/thorough.ts";
import { until } from "../../../../test/support/until.ts";
import { storeConformance } from "../../../latchkey-conformance/src/store-conformance.ts";
import { createLatchkey } from "../latchkey.ts";
import { type PostgresStore, postgresStore } from "../stores/postgres.ts";
import { routedStore } from "./routed.ts";

const capabilities = {
  transactions: true,
  optimisticAdmission: true,
  inProgress: "immediate",
  durability: "synced",
  commitNotice: true,
  fenceSurvivesFailover: true,
  statusReads: "primary",
} as const;

/** The databases share no clock that a test could stop. */
const turnableClock = `
  create table clock (ahead interval not null);
  insert into clock values ('0');
  create function my_clock() returns timestamptz language sql volatile as
    'select clock_timestamp() + ahead from public.clock';`;

/** Spreads the suite's tenants; most cases use only one. */
const placeOf = (tenant: string) =>
  [...tenant].reduce((sum, letter) => sum + (letter.codePointAt(0) ?? 0), 0) % 2;

describe.skipIf(!isThorough)("the store contract", () => {
  const pools: pg.Pool[] = [];
  beforeAll(async () => {
    for (let at = 0; at < 2; at++) {
      const { url, drop } = await freshDatabase();
      onRelease(drop);
      await prepareDatabase(url);
      const pool = openPool(url);
      await pool.query(turnableClock);
      pools.push(pool);
    }
  });

  storeConformance<TestTx>({
    test: (name, body) => test(name, body),
    capabilities,
    clock: "running",
    async factory() {
      for (const pool of pools) await pool.query(emptyTables);
      const opened: PostgresStore<TestTx>[] = [];
      const make = () => {
        const stores = pools.map((pool) => postgresStore({ pool, timeFunction: "public.my_clock()" }));
        opened.push(...stores);
        return routedStore<TestTx>({
          route: (tenant) => stores[placeOf(tenant)] as PostgresStore<TestTx>,
          stores: () => stores,
        });
      };
      return {
        store: make(),
        secondStore: make(),
        async advance(milliseconds) {
          for (const pool of pools) {
            await pool.query("update clock set ahead = ahead + $1 * interval '1 millisecond'", [
              milliseconds,
            ]);
          }
        },
        business: {
          async write(tx, row) {
            await tx.query("insert into business values ($1)", [row]);
          },
          committedRows: async () => (await Promise.all(pools.map(committedRows))).flat(),
        },
        async close() {
          for (const store of opened) await store.close();
        },
      };
    },
  });
});

describe("a database that is killed", () => {
  let servers: readonly PrivatePostgres[] = [];
  beforeAll(async () => {
    servers = await Promise.all([startPostgres(), startPostgres()]);
    for (const server of servers) onRelease(() => server.stop());
    for (const server of servers) await prepareDatabase(server.url);
  });

  test("its tenants get 503, the others are served, and all work is done once it is back", async () => {
    const pools = servers.map(({ url }) => openPool(url, { connectionTimeoutMillis: patient(1_000) }));
    const stores = new Map(
      ["ada", "bob"].map((name, at) => [name, postgresStore({ pool: pools[at] as pg.Pool })]),
    );
    const reported = new Set<string>();
    const store = routedStore<TestTx>({
      route: (tenant) => stores.get(tenant) as PostgresStore<TestTx>,
      stores: () => [...stores.values()],
      onError: (error) => reported.add((error as { code?: string }).code ?? ""),
    });
    const latchkey = createLatchkey({ store });
    const sent: string[] = [];
    const receipt = latchkey.effect("receipt", {
      deduplication: "provider",
      dedupeWindowMs: 60_000,
      execute: async ({ to }: { to: string }) => {
        sent.push(to);
        return null;
      },
      async onDelivered({ input }, tx) {
        await tx.query("insert into business values ($1)", [`to ${input.to}`]);
      },
    });
    const order = latchkey.operation("order");
    const place = (tenant: string, key: string) =>
      latchkey.run(order, { tenant, key, input: null }, async ({ tx, attempt }) => {
        await tx.query("insert into business values ($1)", [key]);
        attempt.enqueue(receipt, { to: `${tenant} ${key}` });
        return key;
      });
    await place("ada", "before");
    await place("bob", "before");
    await servers[1]?.kill9();
    await expect(place("bob", "down")).rejects.toMatchObject({ code: "store-unavailable" });
    const worker = latchkey.startWorker();
    expect(await place("ada", "meanwhile")).toMatchObject({ kind: "executed" });
    const rows = async (at: number) => (await committedRows(pools[at] as pg.Pool)).sort();
    const adas = ["before", "meanwhile", "to ada before", "to ada meanwhile"];
    await until(async () => (await rows(0)).length === adas.length, { what: "ada's effects are delivered" });
    expect(await rows(0)).toEqual(adas);
    expect(sent.filter((to) => to.startsWith("bob"))).toEqual([]);
    expect([...reported]).toEqual(["store-unavailable"]);
    await servers[1]?.start();
    const bobs = ["before", "down", "to bob before", "to bob down"];
    await until(async () => (await place("bob", "down")).kind !== "in_progress", {
      what: "bob is served again",
    });
    await until(async () => (await rows(1)).length === bobs.length, { what: "bob's effects are delivered" });
    expect(await rows(1)).toEqual(bobs);
    expect(await place("bob", "before")).toMatchObject({ kind: "replay", value: "before" });
    expect(sent.sort()).toEqual(["ada before", "ada meanwhile", "bob before", "bob down"]);
    expect(await worker.stop()).toBe(true);
    await store.close?.();
  });
});
