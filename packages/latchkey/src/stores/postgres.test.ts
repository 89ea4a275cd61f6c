import pg from "pg";
import { describe, expect, expectTypeOf, test } from "vitest";
import { committedRows, openPool, prepareDatabase, type TestTx } from "../../../../test/postgres/harness.ts";
import { forEachPostgres } from "../../../../test/support/shared-postgres.ts";
import { storeConformance } from "../testing/store-conformance.ts";
import { migratePostgres, postgresStore } from "./postgres.ts";
import type { Store } from "./store.ts";

const capabilities = {
  transactions: true,
  inProgress: "immediate",
  durability: "synced",
  commitNotice: true,
  fenceSurvivesFailover: true,
  statusReads: "primary",
} as const;

const turnableClock = `
  create table clock (at timestamptz not null);
  insert into clock values (date_trunc('milliseconds', clock_timestamp()));
  create function my_clock() returns timestamptz language sql volatile as 'select at from public.clock';`;

forEachPostgres((_version, database) => {
  let prepared: Promise<void> | undefined;
  const prepare = async () => {
    await prepareDatabase(database.url);
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    await client.query(turnableClock);
    await client.end();
  };

  for (const pipeline of [false, true]) {
    describe(`the store contract, pool with pipeline: ${pipeline}`, () => {
      storeConformance<TestTx>({
        test: (name, body) => test(name, body),
        capabilities,
        clock: "frozen",
        async factory() {
          prepared ??= prepare();
          await prepared;
          const pool = openPool(database.url, { max: 8, pipeline });
          await pool.query("truncate latchkey.records, latchkey.leases, business");
          const options = { pool, timeFunction: "public.my_clock()" };
          const [store, secondStore] = [postgresStore(options), postgresStore(options)];
          return {
            store,
            secondStore,
            async advance(milliseconds) {
              await pool.query("update clock set at = at + $1 * interval '1 millisecond'", [milliseconds]);
            },
            business: {
              async write(tx, row) {
                await tx.query("insert into business values ($1)", [row]);
              },
              committedRows: () => committedRows(pool),
            },
            async close() {
              await store.close();
              await secondStore.close();
              expect([pool.totalCount - pool.idleCount, pool.waitingCount]).toEqual([0, 0]);
              await pool.end();
            },
          };
        },
      });
    });
  }
});
