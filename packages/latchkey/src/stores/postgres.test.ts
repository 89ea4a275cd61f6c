/** The store contract on every version of Postgres. */
import pg from "pg";
import { describe, expect, test } from "vitest";
import {
  committedRows,
  openPool,
  prepareDatabase,
  type TestTx,
  turnableClock,
} from "../../../../test/postgres/harness.ts";
import { emptyTables } from "../../../../test/support/empty-tables.ts";
import { forEachPostgres } from "../../../../test/support/shared-postgres.ts";
import { isThorough } from "../../../../test/support/thorough.ts";
import { storeConformance } from "../../../latchkey-conformance/src/store-conformance.ts";
import { postgresStore } from "./postgres.ts";

const capabilities = {
  transactions: true,
  optimisticAdmission: true,
  inProgress: "immediate",
  durability: "synced",
  commitNotice: true,
  fenceSurvivesFailover: true,
  statusReads: "primary",
} as const;

/** What a role or a database may set without a change of what is stored; docs/database-settings.md has all that are tried. */
const oddSettings = [
  "array_nulls=off",
  "bytea_output=escape",
  "extra_float_digits=-15",
  "DateStyle=SQL,DMY",
  "IntervalStyle=sql_standard",
  "TimeZone=Asia/Kathmandu",
  "standard_conforming_strings=off",
  "transform_null_equals=on",
  "quote_all_identifiers=on",
];

forEachPostgres((_version, database) => {
  let prepared: Promise<void> | undefined;
  const prepare = async () => {
    await prepareDatabase(database.url);
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    await client.query(turnableClock);
    await client.end();
  };

  // A pool without pipeline is met by `npm run test:all`.
  const modes = isThorough ? [false, true] : [true];
  for (const pipeline of modes) {
    describe(`the store contract, pool with pipeline: ${pipeline}${pipeline ? ", odd settings" : ""}`, () => {
      let shared: pg.Pool | undefined;
      storeConformance<TestTx>({
        test: (name, body) => test(name, body),
        capabilities,
        clock: "frozen",
        async factory() {
          prepared ??= prepare();
          await prepared;
          const options = oddSettings.map((setting) => `-c ${setting}`).join(" ");
          shared ??= openPool(database.url, { max: 8, pipeline, ...(pipeline ? { options } : {}) });
          const pool = shared;
          await pool.query(emptyTables);
          const own = () => postgresStore({ pool, timeFunction: "public.my_clock()" });
          const [store, secondStore] = [own(), own()];
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
            },
          };
        },
      });
    });
  }
});
