import { describe, test } from "vitest";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { httpConformance } from "../../packages/latchkey-conformance/src/http-conformance.ts";
import { committedRows, openPool, prepareDatabase, type TestTx } from "../postgres/harness.ts";
import { emptyTables } from "../support/empty-tables.ts";
import { forEachPostgres, postgresVersions } from "../support/shared-postgres.ts";
import { isThorough } from "../support/thorough.ts";
import { apps } from "./apps.ts";

const turnableClock = `
  create table clock (at timestamptz not null);
  insert into clock values (date_trunc('milliseconds', clock_timestamp()));
  create function my_clock() returns timestamptz language sql volatile as 'select at from public.clock';`;

/** Adapters know nothing of the store: without npm run test:all two meet the newest server, and another one the others. */
const adapters = apps.filter(({ name, oneOfItsKind }) => (isThorough ? oneOfItsKind : name === "Express 5"));
const one = apps.filter(({ name }) => name === "Hono");

forEachPostgres((version, database) => {
  const chosen = version === postgresVersions().at(-1) ? adapters : one;
  let opened: ReturnType<typeof open> | undefined;
  const open = async () => {
    await prepareDatabase(database.url);
    const pool = openPool(database.url, { max: 8 });
    await pool.query(turnableClock);
    return { pool, store: postgresStore({ pool, timeFunction: "public.my_clock()" }) };
  };

  for (const { name, seesFieldLines, serve } of chosen) {
    describe(`${name} keeps the HTTP protocol`, () => {
      httpConformance<TestTx>({
        test,
        seesFieldLines,
        serve,
        async store() {
          opened ??= open();
          const { pool, store } = await opened;
          await pool.query(emptyTables);
          return {
            store,
            async advance(milliseconds) {
              await pool.query("update clock set at = at + $1 * interval '1 millisecond'", [milliseconds]);
            },
            business: {
              async write(tx, row) {
                await tx.query("insert into business values ($1)", [row]);
              },
              committedRows: () => committedRows(pool),
            },
            // Heartbeats hold a connection, which the pool's end would wait for.
            close: () => store.close(),
          };
        },
      });
    });
  }
});
