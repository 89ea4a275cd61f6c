/** Faults that settings bring out: what a handler leaves behind, what the server refuses at the end, and whom values pass. */

import { from as copyFrom } from "pg-copy-streams";
import Cursor from "pg-cursor";
import QueryStream from "pg-query-stream";
import { beforeAll, describe, expect, test } from "vitest";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import { migratePostgres, postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { postgresVersions } from "../support/shared-postgres.ts";
import { isThorough } from "../support/thorough.ts";
import { until } from "../support/until.ts";
import { expectNoLeak, openPool } from "./harness.ts";
import {
  businessRows,
  newRole,
  type SettingsDatabase,
  serviceOn,
  settingsDatabase,
} from "./settings-arrange.ts";

const [version = 15] = postgresVersions();

describe(`settings' faults on PostgreSQL ${version}`, () => {
  let database: SettingsDatabase;
  beforeAll(async () => {
    database = await settingsDatabase(version);
  });

  describe("what a handler leaves open", () => {
    const open = [
      { what: "a cursor", kind: "Cursor", query: () => new Cursor("select generate_series(1, 100)") },
      {
        what: "a stream",
        kind: "QueryStream",
        query: () => new QueryStream("select generate_series(1, 100)"),
      },
      { what: "a COPY", kind: "CopyStreamQuery", query: () => copyFrom("copy public.business from stdin") },
    ];

    test.each(open)(
      "$what: an error that names it, and the next request is served",
      async ({ query, kind }) => {
        const service = serviceOn(openPool(database.url, { max: 2 }));
        const leaving = service.order("k", async (tx) => {
          tx.query(query());
        });
        const refusal = {
          code: "query-open",
          message: expect.stringContaining(`A ${kind} that the handler sent`),
        };
        await expect(leaving).rejects.toMatchObject(refusal);
        expect(await businessRows(database, service)).toBe(0);
        expect(await onceFree(service)).toMatchObject({ kind: "executed" });
        await service.close();
      },
    );

    test.each(isThorough ? open : open.slice(0, 1))(
      "$what, when the handler throws: its own error",
      async ({ query }) => {
        const service = serviceOn(openPool(database.url, { max: 2 }));
        const failure = new Error("the handler's own");
        const throwing = service.order("k", async (tx) => {
          tx.query(query());
          throw failure;
        });
        await expect(throwing).rejects.toBe(failure);
        expect(await onceFree(service)).toMatchObject({ kind: "executed" });
        await service.close();
      },
    );

    test("cursors that are closed and streams that are left early are served", async () => {
      const pool = openPool(database.url, { max: 2 });
      const service = serviceOn(pool);
      const work = service.order("k", async (tx) => {
        const cursor = tx.query(new Cursor("select generate_series(1, 100)"));
        await cursor.read(10);
        await cursor.close();
        for await (const _ of tx.query(new QueryStream("select generate_series(1, 100)"))) break;
      });
      expect(await work).toMatchObject({ kind: "executed" });
      await service.store.close();
      await expectNoLeak(pool);
      await pool.end();
    });
  });

  describe("a closing statement that the server refuses", () => {
    test.each([
      { how: "lock_timeout", state: "55P03", options: "-c lock_timeout=300ms" },
      { how: "a cancelled wait", state: "57014", options: "" },
    ])("$how: the store is unavailable, and the key is free", async ({ state, options }) => {
      const service = serviceOn(openPool(database.url, { max: 2, options }));
      await service.order("warm");
      const blocker = await database.admin.connect();
      const refused = service.order("k", async () => {
        await blocker.query("begin; lock table latchkey.records in share mode");
      });
      const refusal = { code: "store-unavailable", message: expect.stringContaining(state) };
      const expected = expect(refused).rejects.toMatchObject(refusal);
      if (state === "57014") {
        await until(async () => {
          const { rows } = await blocker.query(`select pg_cancel_backend(pid) from pg_stat_activity
            where datname = current_database() and wait_event_type = 'Lock'`);
          return rows.length > 0;
        });
      }
      await expected;
      await blocker.query("rollback");
      blocker.release();
      expect(await service.order("k")).toMatchObject({ kind: "executed" });
      expect(await businessRows(database, service)).toBe(2);
      await service.close();
    });
  });

  test("limits of the DBA's that are lower stay for the transaction", async () => {
    const options = "-c idle_in_transaction_session_timeout=9s -c statement_timeout=8s -c lock_timeout=7s";
    const service = serviceOn(openPool(database.url, { max: 2, options }));
    const limits: unknown[] = [];
    await service.order("k", async (tx) => {
      for (const name of ["idle_in_transaction_session_timeout", "statement_timeout", "lock_timeout"]) {
        limits.push(...(await tx.query({ text: `show ${name}`, rowMode: "array" })).rows.flat());
      }
    });
    expect(limits).toEqual(["9s", "8s", "7s"]);
    await service.close();
  });

  test("SERIALIZABLE by the database: requests for other keys do not fail each other", async () => {
    const pool = openPool(database.url, { max: 8, options: "-c default_transaction_isolation=serializable" });
    const events: string[] = [];
    const latchkey = createLatchkey({
      store: postgresStore({ pool }),
      onEvent: ({ type }) => events.push(type),
    });
    const order = latchkey.operation("isolated");
    const mail = latchkey.operation("isolated mails", { execution: "lease" });
    const keys = Array.from({ length: 40 }, (_, index) => `key ${index}`);
    await latchkey.run(order, { tenant: "t", key: "warm", input: 0 }, async ({ tx }) => tx.query("select 1"));
    events.length = 0;
    const results = await Promise.all(
      keys.map((key) =>
        latchkey.run(order, { tenant: "isolated", key, input: key }, async ({ tx }) => {
          const { rows } = await tx.query<{ level: string }>(
            "insert into business values ($1) returning current_setting('transaction_isolation') as level",
            [key],
          );
          return rows[0]?.level;
        }),
      ),
    );
    expect(results.map((one) => "value" in one && one.value)).toEqual(keys.map(() => "serializable"));
    expect(events.filter((type) => type === "transaction_rerun")).toEqual([]);
    const mails = keys.map((key) =>
      latchkey.run(mail, { tenant: "isolated", key, input: key }, async () => key),
    );
    expect((await Promise.all(mails)).map(({ kind }) => kind)).toEqual(keys.map(() => "executed"));
    await pool.end();
  });

  describe("a search path for each tenant: a value never passes through another tenant's type", () => {
    const insert = "insert into items (code) values ($1)";
    const ways = {
      "set local": "set local search_path = tenant_text",
      set_config: "select set_config('search_path', 'tenant_text', true)",
      "a function": "select use_text()",
      "a temporary table": "create temp table items (code text) on commit drop",
    };

    beforeAll(async () => {
      await database.admin.query(`
        create table items (code int); create schema tenant_text; create table tenant_text.items (code text);
        create function use_text() returns void language sql as 'select set_config(''search_path'', ''tenant_text'', true)'`);
    });

    test.each(Object.entries(ways))("by %s", async (_, change) => {
      const service = serviceOn(openPool(database.url, { max: 1 }));
      for (let count = 0; count < 7; count++) {
        await service.order(`public ${count}`, (tx) => tx.query(insert, ["007"]));
      }
      const codes: unknown[] = [];
      for (let count = 0; count < 2; count++) {
        await service.order(`tenant ${count}`, async (tx) => {
          await tx.query(change);
          await tx.query(insert, ["007"]);
          codes.splice(0, count === 0 ? 9 : 0);
          codes.push((await tx.query("select code from items order by ctid desc limit 1")).rows[0]?.code);
        });
      }
      const { rows } = await database.admin.query("delete from tenant_text.items returning code");
      const kept = change.includes("temp") ? codes : rows.map(({ code }) => code);
      expect(kept).toEqual(["007", "007"]);
      await service.close();
    });

    test("by a function, over an expired record", async () => {
      const service = serviceOn(openPool(database.url, { max: 1 }));
      const { latchkey, tenant } = service;
      const coupon = latchkey.operation("coupons", { reuse: "execute" });
      const redeem = (key: string, change: string) =>
        latchkey.run(coupon, { tenant, key, input: key }, async ({ tx }) => {
          await tx.query(change);
          await tx.query(insert, ["007"]);
        });
      for (let count = 0; count < 7; count++) await redeem(`${count}`, "select 1");
      await database.admin.query("update latchkey.records set expires_at = now() where tenant = $1", [
        tenant,
      ]);
      expect(await redeem("0", "select use_text()")).toMatchObject({ kind: "executed" });
      const { rows } = await database.admin.query("delete from tenant_text.items returning code");
      expect(rows).toEqual([{ code: "007" }]);
      await service.close();
    });

    test("by a function, before an answer that is kept without its writes", async () => {
      await database.admin.query(`create table prices (amount real);
        create table tenant_text.prices (amount double precision);
        insert into prices values (0.1); insert into tenant_text.prices values (0.1)`);
      const service = serviceOn(openPool(database.url, { max: 1 }));
      const { latchkey, tenant } = service;
      const quote = latchkey.operation("quotes", { serverErrors: "store", writes: "none" });
      const answerTo = async (key: string, change: string) => {
        const submission = {
          key: { tenant, scope: "quotes", key },
          fingerprint: { version: 1, digest: new Uint8Array(32) },
          principal: null,
        };
        const result = await latchkey.execute(quote, submission, async ({ tx }) => {
          await tx.query(change);
          const { rows } = await tx.query("select 1 from prices where amount = $1", [0.1]);
          const status = rows.length === 1 ? 201 : 500;
          return { status, headers: [], body: new Uint8Array(0), omitted: null };
        });
        return result.kind === "executed" ? result.answer.status : result.kind;
      };
      for (let count = 0; count < 7; count++) expect(await answerTo(`public ${count}`, "select 1")).toBe(201);
      expect(await answerTo("tenant", "select use_text()")).toBe(201);
      await service.close();
    });
  });

  describe("parsers of the user's", () => {
    test("values as text: the second start finds the migrations, and all is served", async () => {
      const pool = openPool(database.url, {
        max: 3,
        types: { getTypeParser: () => (text: string) => `<${text}>` },
      });
      expect(await migratePostgres(pool)).toMatchObject({ applied: [], version: expect.any(Number) });
      const service = serviceOn(pool);
      expect(await service.order("k")).toMatchObject({ kind: "executed" });
      expect(await service.order("k")).toMatchObject({ kind: "replay" });
      expect(await service.mail("k")).toMatchObject({ kind: "executed" });
      await service.close();
    });
  });

  describe("roles", () => {
    const rights = {
      "no right to the schema": "select 1",
      "read only":
        "grant usage on schema latchkey to $role; grant select on all tables in schema latchkey to $role",
    };

    test.each(Object.entries(rights))("%s: refused before the handler", async (_, grants) => {
      const role = await newRole(database);
      await database.admin.query(grants.replaceAll("$role", role.name));
      const service = serviceOn(openPool(role.url, { max: 2 }));
      const refusal = {
        code: "store-unsuitable",
        message: expect.stringContaining(`Role ${role.name} lacks`),
      };
      await expect(service.order("k")).rejects.toMatchObject(refusal);
      await expect(service.store.verify()).rejects.toMatchObject(refusal);
      expect(service.runs.order).toBe(0);
      await service.close();
    });

    test("row-level security on Latchkey's tables: refused, and served once a policy lets all through", async () => {
      const role = await newRole(database);
      await database.admin.query(`grant usage on schema latchkey to ${role.name};
        grant all on all tables in schema latchkey to ${role.name};
        alter table latchkey.records enable row level security`);
      const service = serviceOn(openPool(role.url, { max: 2 }));
      const refusal = { code: "store-unsuitable", message: expect.stringContaining("Row-level security") };
      await expect(service.order("k")).rejects.toMatchObject(refusal);
      await expect(service.mail("k")).rejects.toMatchObject(refusal);
      expect(service.runs).toEqual({ order: 0, mail: 0 });
      await database.admin.query(`create policy all_rows on latchkey.records to ${role.name} using (true)`);
      expect(await service.order("k")).toMatchObject({ kind: "executed" });
      expect(await service.mail("k")).toMatchObject({ kind: "executed" });
      await database.admin.query("alter table latchkey.records disable row level security");
      await service.close();
    });
  });
});

/** The server takes a moment to notice that a connection has gone. Until then its lock holds the key. */
function onceFree(service: ReturnType<typeof serviceOn>) {
  return until(async () => {
    const result = await service.order("k");
    return result.kind === "in_progress" ? undefined : result;
  });
}
