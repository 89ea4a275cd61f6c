import type { PGlite } from "@electric-sql/pglite";
import { afterAll, beforeAll, describe, test } from "vitest";
import { migratePglite, type PgliteTx, pgliteStore } from "../../packages/latchkey/src/stores/pglite.ts";
import { httpConformance } from "../../packages/latchkey-conformance/src/http-conformance.ts";
import { emptyTables } from "../support/empty-tables.ts";
import { readyPglite } from "../support/ready-pglite.ts";
import { isThorough } from "../support/thorough.ts";
import { apps } from "./apps.ts";

const surroundings = `
  create table business (row text not null);
  create table clock (at timestamptz not null);
  insert into clock values (date_trunc('milliseconds', clock_timestamp()));
  create function my_clock() returns timestamptz language sql volatile as 'select at from public.clock';`;

let database: PGlite;

beforeAll(async () => {
  database = await readyPglite();
  await migratePglite(database);
  await database.exec(surroundings);
});

afterAll(() => database.close());

/** Adapters know nothing of the store: without npm run test:all one meets it that meets no other database. */
const adapters = apps.filter(({ name, oneOfItsKind }) => (isThorough ? oneOfItsKind : name === "Fetch"));

for (const { name, seesFieldLines, serve } of adapters) {
  describe(`${name} keeps the HTTP protocol, on PGlite`, () => {
    httpConformance<PgliteTx<PGlite>>({
      test,
      seesFieldLines,
      serve,
      async store() {
        await database.exec(emptyTables);
        return {
          store: pgliteStore({ database, timeFunction: "public.my_clock()" }),
          async advance(milliseconds) {
            await database.query("update clock set at = at + $1::float8 * interval '1 millisecond'", [
              milliseconds,
            ]);
          },
          business: {
            async write(tx, row) {
              await tx.query("insert into business values ($1)", [row]);
            },
            async committedRows() {
              const { rows } = await database.query<{ row: string }>("select row from business");
              return rows.map(({ row }) => row);
            },
          },
          close() {},
        };
      },
    });
  });
}
