/** What a handler changes of its session, on PGlite and through Drizzle; `test/postgres/settings*` shows it on `pg`. */
import { type PGlite, types } from "@electric-sql/pglite";
import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/pglite";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import { drizzleTransactions } from "../../packages/latchkey/src/sql/drizzle.ts";
import { migratePglite, pgliteStore } from "../../packages/latchkey/src/stores/pglite.ts";
import { readyPglite } from "../support/ready-pglite.ts";

const changes = {
  "set local role": "set local role tenant",
  "a function that sets the role": "select set_tenant()",
  "set local search_path": "set local search_path = nowhere",
  datestyle: "set local datestyle = 'SQL, DMY'",
};

describe("settings on PGlite", () => {
  let database: PGlite;
  let runs = 0;

  beforeAll(async () => {
    database = await readyPglite();
    await migratePglite(database);
    await database.exec(`create role tenant; create table business (row text); grant all on business to tenant;
      create function set_tenant() returns void language sql as 'select set_config(''role'', ''tenant'', true)'`);
    const parsers = database.parsers as Record<number, (text: string) => unknown>;
    for (const oid of [types.INT4, types.TEXT, types.BYTEA, types.JSON]) parsers[oid] = (text) => `<${text}>`;
  });
  afterAll(() => database.close());
  beforeEach(() => {
    runs += 1;
  });

  function ordersOf() {
    const own = createLatchkey({ store: pgliteStore({ database }) });
    const transactions = drizzleTransactions({ db: drizzle(database) });
    const drizzled = createLatchkey({ store: pgliteStore({ database, transactions }) });
    const [order, built] = [own.operation("orders"), drizzled.operation("drizzled")];
    const tenant = `tenant ${runs}`;
    return {
      PGlite: (text: string) =>
        own.run(order, { tenant, key: "k", input: 0 }, async ({ tx }) => {
          await tx.query("insert into public.business values ($1)", [tenant]);
          await tx.query(text);
          return "done";
        }),
      Drizzle: (text: string) =>
        drizzled.run(built, { tenant, key: "k", input: 0 }, async ({ tx }) => {
          await tx.execute(sql`insert into public.business values (${tenant})`);
          await tx.execute(sql.raw(text));
          return "done";
        }),
    };
  }

  test.each(Object.entries(changes))("%s: served once, and the session is as it was", async (_, change) => {
    for (const run of Object.values(ordersOf())) {
      expect(await run(change)).toMatchObject({ kind: "executed", value: "done" });
      expect(await run(change)).toMatchObject({ kind: "replay", value: "done" });
    }
    const { rows } = await database.query("select current_user::name::varchar as role from business");
    expect(rows).toHaveLength(2 * runs);
    expect(rows[0]).toEqual({ role: "postgres" });
  });

  test.each(["serializable", "repeatable read"])("a session at %s", async (level) => {
    await database.exec(`set default_transaction_isolation = '${level}'`);
    for (const run of Object.values(ordersOf())) {
      expect(await run("select 1")).toMatchObject({ kind: "executed", value: "done" });
      expect(await run("select 1")).toMatchObject({ kind: "replay", value: "done" });
    }
    await database.exec("reset default_transaction_isolation");
  });

  test("a read-only session: refused before the handler, finished keys are replayed", async () => {
    const orders = Object.values(ordersOf());
    for (const run of orders) await run("select 1");
    await database.exec("set default_transaction_read_only = on");
    for (const run of orders) expect(await run("select 1")).toMatchObject({ kind: "replay" });
    runs += 1;
    const refusal = { code: "store-unavailable", message: expect.stringContaining("read-only") };
    for (const run of Object.values(ordersOf())) await expect(run("select 1")).rejects.toMatchObject(refusal);
    await database.exec("set default_transaction_read_only = off");
  });
});
