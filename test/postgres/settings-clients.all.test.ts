/** What a DBA has set for a database, through every client. */

import type pg from "pg";
import { beforeAll, describe, expect, test } from "vitest";
import { patient } from "../support/patience.ts";
import { until, within } from "../support/until.ts";
import { clients, type DatabaseClient } from "./clients.ts";
import { committedRows, migratedDatabase, openPool } from "./harness.ts";
import { holeInFrontOf } from "./hole.ts";

describe("a database whose default is SERIALIZABLE", () => {
  let url: string;
  let admin: pg.Pool;
  beforeAll(async () => {
    url = await migratedDatabase();
    admin = openPool(url);
    await admin.query(`do $$ begin execute format(
      'alter database %I set default_transaction_isolation = serializable', current_database()); end $$`);
  });

  test.each(Object.entries<DatabaseClient>(clients))(
    "%s: keys that have nothing to do with each other do not fail each other, and a retry is a replay",
    async (name, client) => {
      const { handle } = await client.open(openPool(url, { max: 6 }));
      const keys = Array.from({ length: 24 }, (_, index) => `${name} ${index}`);
      const order = async (key: string) => {
        const insert =
          "insert into business values ($1::text || ' ' || current_setting('transaction_isolation'))";
        const { kind } = (await handle(key, async (say) => void (await say(insert, key)))) as {
          kind: string;
        };
        return kind;
      };
      expect(new Set(await Promise.all(keys.map(order)))).toEqual(new Set(["executed"]));
      expect(new Set(await Promise.all(keys.map(order)))).toEqual(new Set(["replay"]));
      const rows = (await committedRows(admin)).filter((row) => row.startsWith(`${name} `));
      const ofThis = rows.filter((row) => keys.includes(row.slice(0, row.lastIndexOf(" "))));
      expect(ofThis.sort()).toEqual(keys.map((key) => `${key} serializable`).sort());
    },
  );
});

test.concurrent.each(Object.entries<DatabaseClient>(clients))(
  "%s: connections that hang while they are opened are given up, and the next requests are served",
  async (name, client) => {
    const url = await migratedDatabase();
    const hole = await holeInFrontOf(url);
    const pool = openPool(hole.url, { max: 3, connectionTimeoutMillis: patient(1_000) });
    const { handle } = await client.open(pool);
    const insert = (key: string) =>
      handle(key, async (say) => void (await say("insert into business values ($1)", key)));
    const kindOf = async (key: string) => ((await insert(key)) as { readonly kind: string }).kind;
    expect(await kindOf(`${name} before`)).toBe("executed");
    hole.begin();
    const keys = Array.from({ length: 6 }, (_, index) => `${name} ${index}`);
    const during = await within(Promise.allSettled(keys.map(insert)), "all are answered", 60_000);
    for (const one of during)
      expect(one).toMatchObject({ status: "rejected", reason: { code: "store-unavailable" } });
    hole.end();
    await until(() => kindOf(`${name} after`), { what: "one is served again" });
    expect(await Promise.all(keys.map(kindOf))).toEqual(keys.map(() => "executed"));
    expect((await committedRows(openPool(url))).sort()).toEqual(
      [`${name} before`, `${name} after`, ...keys].sort(),
    );
  },
);
