/** Roles, search paths and refused ends through every client, and in `pg`'s pipeline mode where a client sends through that pool; `settings.test.ts` has them on `pg`. */
import type pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { postgresVersions } from "../support/shared-postgres.ts";
import { clients, type DatabaseClient, type OpenClient } from "./clients.ts";
import { openPool } from "./harness.ts";
import { type SettingsDatabase, settingsDatabase } from "./settings-arrange.ts";

interface Way {
  readonly pipeline: boolean;
  readonly open: DatabaseClient["open"];
}

const ways: readonly (readonly [string, Way])[] = Object.entries(clients).flatMap(
  ([name, { open, onGivenPool }]) => [
    ...(name === "pg" ? [] : [[name, { pipeline: false, open }] as const]),
    ...(onGivenPool ? [[`${name} on a pool in pipeline mode`, { pipeline: true, open }] as const] : []),
  ],
);

describe.each(postgresVersions().slice(-1))("settings on PostgreSQL %i", (version) => {
  let database: SettingsDatabase;
  beforeAll(async () => {
    database = await settingsDatabase(version);
    await database.admin.query(`
      do $$ begin
        if not exists (select from pg_roles where rolname = 'settings_way') then create role settings_way; end if;
      end $$;
      create function become_way() returns void language sql as 'select set_config(''role'', ''settings_way'', true)';
      create table items (code int);
      create schema tenant_text;
      create table tenant_text.items (code text);
    `);
  });
  afterAll(async () => {
    await database?.admin.query("drop owned by settings_way").catch(() => {});
  });

  describe.each(ways)("through %s", (_, { pipeline, open }) => {
    async function withService(
      config: pg.PoolConfig,
      work: (order: OpenClient["handle"]) => Promise<unknown>,
    ): Promise<void> {
      const pool = openPool(database.url, { max: 2, pipeline, ...config });
      const { handle } = await open(pool);
      await work((key, act) => handle(key, (say) => act(say).then(() => ({ key }))));
      await pool.end();
    }

    test.each([
      "set local role settings_way",
      "set role settings_way",
      "select become_way()",
      "set local session authorization settings_way",
      "set local search_path = nowhere",
      "set local search_path = hostile_operators, pg_catalog, public",
      "select set_config('search_path', 'hostile_functions, pg_catalog, public', true)",
    ])("a handler: %s", async (text) => {
      await withService({}, async (order) => {
        for (const kind of ["executed", "replay"]) {
          expect(await order("k", (say) => say(text))).toMatchObject({ kind, value: { key: "k" } });
        }
        expect(
          await order("next", (say) => say("insert into public.business values ('next')")),
        ).toMatchObject({
          kind: "executed",
        });
      });
    });

    test.each([
      ["search_path=hostile_operators,pg_catalog,public", "search_path"],
      ["default_transaction_read_only=on", "default_transaction_read_only"],
    ])("a session with %s is refused before the handler", async (setting, named) => {
      let runs = 0;
      await withService({ options: `-c ${setting}` }, async (order) => {
        const refusal = { code: expect.stringMatching(/^store-/), message: expect.stringContaining(named) };
        const run = order("k", async () => {
          runs += 1;
        });
        await expect(run).rejects.toMatchObject(refusal);
      });
      expect(runs).toBe(0);
    });

    test("a value never passes through another tenant's type", async () => {
      await withService({ max: 1 }, async (order) => {
        const insert = "insert into items (code) values ($1)";
        for (let count = 0; count < 7; count++) await order(`public ${count}`, (say) => say(insert, "007"));
        await order("tenant", async (say) => {
          await say("set local search_path = tenant_text");
          await say(insert, "007");
        });
        const { rows } = await database.admin.query("delete from tenant_text.items returning code");
        expect(rows).toEqual([{ code: "007" }]);
      });
    });

    test("an end that the server refuses: the store is unavailable, and the key is free", async () => {
      await withService({ options: "-c lock_timeout=300ms" }, async (order) => {
        await order("warm", (say) => say("select 1"));
        const blocker = await database.admin.connect();
        const refused = order("k", async (say) => {
          await say("insert into public.business values ('refused')");
          await blocker.query("begin; lock table latchkey.records in share mode");
        });
        await expect(refused).rejects.toMatchObject({
          code: "store-unavailable",
          certainty: "rolled_back",
          message: expect.stringContaining("55P03"),
        });
        await blocker.query("rollback");
        blocker.release();
        expect(await order("k", (say) => say("select 1"))).toMatchObject({ kind: "executed" });
      });
      const { rows } = await database.admin.query("select from business where row = 'refused'");
      expect(rows).toEqual([]);
    });
  });
});
