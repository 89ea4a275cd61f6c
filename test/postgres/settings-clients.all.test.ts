/** What a DBA has set for a database, through every client. */

import type pg from "pg";
import { beforeAll, describe, expect, test } from "vitest";
import { clients, type DatabaseClient } from "./clients.ts";
import { committedRows, migratedDatabase, openPool } from "./harness.ts";

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
