import { readdirSync } from "node:fs";
import pg from "pg";
import { describe, expect, test } from "vitest";
import { openPool } from "../../../../test/postgres/harness.ts";
import { onRelease } from "../../../../test/support/resources.ts";
import { freshDatabase } from "../../../../test/support/shared-postgres.ts";
import { until } from "../../../../test/support/until.ts";
import { createLatchkey } from "../index.ts";
import { readMigrations } from "./migrate-postgres.ts";
import { schemaVersion } from "./postgres/settings.ts";
import { migratePostgres, migratePostgresSql, postgresStore } from "./postgres.ts";

async function emptyDatabase(): Promise<string> {
  const { url, drop } = await freshDatabase();
  onRelease(drop);
  return url;
}

describe("the files", () => {
  test("are numbered without a gap, and the last number is the version the code needs", () => {
    const migrations = readMigrations();
    expect(migrations.map(({ version }) => version)).toEqual(migrations.map((_, index) => index + 1));
    expect(migrations.at(-1)?.version).toBe(schemaVersion);
    const folder = new URL("../../sql/postgres/", import.meta.url);
    expect(readdirSync(folder).length, "every file is a migration").toBe(migrations.length);
  });

  test("name the schema only through its placeholder", () => {
    for (const { name, sql } of readMigrations()) {
      expect(sql, name).not.toMatch(/latchkey\./);
      expect(sql, name).toContain(':"schema".');
    }
  });
});

describe("migratePostgres", () => {
  test("creates the schema and records what it did", async () => {
    const pool = openPool(await emptyDatabase());
    expect(await migratePostgres(pool)).toEqual({
      schema: "latchkey",
      applied: [
        "0001_records",
        "0002_messages",
        "0003_names",
        "0004_audit_age",
        "0005_summaries",
        "0006_traces",
        "0007_facts",
        "0008_short_check",
      ],
      version: 8,
    });
    expect(await migratePostgres(pool)).toEqual({ schema: "latchkey", applied: [], version: 8 });
    const { rows } = await pool.query("select version, name from latchkey.migrations");
    expect(rows).toEqual([
      { version: 1, name: "0001_records" },
      { version: 2, name: "0002_messages" },
      { version: 3, name: "0003_names" },
      { version: 4, name: "0004_audit_age" },
      { version: 5, name: "0005_summaries" },
      { version: 6, name: "0006_traces" },
      { version: 7, name: "0007_facts" },
      { version: 8, name: "0008_short_check" },
    ]);
    await pool.end();
  });

  test.each([false, true])("ten at once do it once (pipeline: %s)", async (pipeline) => {
    const pool = openPool(await emptyDatabase(), { max: 10, pipeline });
    const reports = await Promise.all(Array.from({ length: 10 }, () => migratePostgres(pool)));
    expect(reports.filter(({ applied }) => applied.length > 0)).toHaveLength(1);
    expect(reports.every(({ version }) => version === schemaVersion)).toBe(true);
    await postgresStore({ pool }).verify();
    expect(pool.idleCount).toBe(pool.totalCount);
    await pool.end();
  });

  test.each([
    ["lock_timeout", "-c lock_timeout=20", 20],
    // Each of the migrations' own statements must end within it, on a busy machine too.
    ["statement_timeout", "-c statement_timeout=1000", 1_000],
    ["idle_in_transaction_session_timeout", "-c idle_in_transaction_session_timeout=20", 20],
    ["serializable by default", "-c default_transaction_isolation=serializable", 20],
  ])("waits for another process that migrates, under %s", async (_, settings, limitMs) => {
    const url = await emptyDatabase();
    const holder = openPool(url, { max: 1 });
    await holder.query(
      "begin; select pg_advisory_xact_lock(hashtextextended('latchkey migrations of latchkey', 0))",
    );
    const pool = openPool(url, { max: 4, options: settings });
    const waiting = Promise.allSettled(Array.from({ length: 4 }, () => migratePostgres(pool)));
    await until(() => pool.totalCount === 4 && pool.waitingCount === 0);
    const { rows } = await holder.query(`select clock_timestamp() + interval '${2 * limitMs} ms' as late`);
    const isLate = "select clock_timestamp() >= $1 as late";
    await until(async () => (await holder.query(isLate, [rows[0]?.late])).rows[0]?.late);
    await holder.query("commit");
    const ended = await waiting;
    expect(ended.filter(({ status }) => status === "rejected")).toEqual([]);
    const applied = ended.flatMap((one) => (one.status === "fulfilled" ? [one.value.applied.length] : []));
    expect(applied.filter((count) => count > 0)).toHaveLength(1);
    await Promise.all([pool.end(), holder.end()]);
  });

  test("a process that is slow between two statements is not ended by the role's limit on idle time", async () => {
    const pool = openPool(await emptyDatabase(), {
      max: 1,
      options: "-c idle_in_transaction_session_timeout=20",
    });
    const connect = pool.connect.bind(pool);
    const slow = async () => {
      const client = await connect();
      const query = client.query.bind(client) as (...args: readonly unknown[]) => Promise<unknown>;
      Reflect.set(client, "query", async (...args: readonly unknown[]) => {
        const answer = await query(...args);
        // Three times the limit, by the server's clock; the process waits outside of every statement.
        const { rows } = await clock.query("select clock_timestamp() + interval '60 ms' as late");
        const isLate = "select clock_timestamp() >= $1 as late";
        await until(async () => (await clock.query(isLate, [rows[0]?.late])).rows[0]?.late);
        return answer;
      });
      return client;
    };
    const clock = openPool(pool.options.connectionString ?? "", { max: 1 });
    Reflect.set(pool, "connect", slow);
    expect(await migratePostgres(pool)).toMatchObject({ version: schemaVersion });
    Reflect.set(pool, "connect", connect);
    await Promise.all([pool.end(), clock.end()]);
  });

  test("is all or nothing", async () => {
    const pool = openPool(await emptyDatabase());
    await pool.query("create schema latchkey; create table latchkey.leases (in_the_way int)");
    await expect(migratePostgres(pool)).rejects.toMatchObject({ code: "42P07" });
    const { rows } = await pool.query(
      "select relname from pg_class where relnamespace = 'latchkey'::regnamespace",
    );
    expect(rows).toEqual([{ relname: "leases" }]);
    await pool.query("drop table latchkey.leases");
    expect((await migratePostgres(pool)).version).toBe(schemaVersion);
    await pool.end();
  });

  test("needs no right to create schemas where the schema is there", async () => {
    const url = await emptyDatabase();
    const pool = openPool(url);
    const role = `migrator_${process.pid}`;
    await pool.query(`create role ${role} login; create schema prepared authorization ${role}`);
    const narrow = new URL(url);
    narrow.username = role;
    const own = openPool(narrow.href, { max: 1 });
    expect((await migratePostgres(own, { schema: "prepared" })).version).toBe(schemaVersion);
    await expect(migratePostgres(own, { schema: "missing" })).rejects.toMatchObject({ code: "42501" });
    await own.end();
    await pool.query(`drop owned by ${role}; drop role ${role}`);
    await pool.end();
  });

  test("gives every schema a secret of its own", async () => {
    const pool = openPool(await emptyDatabase());
    for (const schema of ["one", "two"]) await migratePostgres(pool, { schema });
    const { rows } = await pool.query<{ value: string }>(
      `select value from one.settings where name = 'lock_secret'
       union select value from two.settings where name = 'lock_secret'`,
    );
    expect(rows).toHaveLength(2);
    await pool.end();
  });
});

describe("migratePostgresSql", () => {
  test("makes the same schema in one go, under any name", async () => {
    const client = new pg.Client({ connectionString: await emptyDatabase() });
    await client.connect();
    await client.query(migratePostgresSql());
    await client.query(migratePostgresSql({ schema: "second" }));
    const columns = `select table_name, column_name, data_type from information_schema.columns
      where table_schema = $1 order by 1, 2`;
    const { rows: first } = await client.query(columns, ["latchkey"]);
    const { rows: second } = await client.query(columns, ["second"]);
    expect(first).toEqual(second);
    await client.end();
  });

  test("after a version it holds only what is newer", () => {
    expect(migratePostgresSql()).toContain("create table");
    expect(migratePostgresSql({ after: 1 })).not.toContain("0001_records");
    expect(migratePostgresSql({ after: 1 })).toContain("0002_messages");
    expect(migratePostgresSql({ after: 3 })).not.toContain('create table "latchkey".records');
  });

  test("a schema whose name is not plain is refused", () => {
    expect(() => migratePostgresSql({ schema: 'x"; drop schema public' })).toThrow(TypeError);
  });
});

describe("migration 8, the short check", () => {
  /** A database as version 7 left it. */
  async function atVersion7(): Promise<string> {
    const url = await emptyDatabase();
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    const table =
      "version integer primary key, name text not null, applied_at timestamptz not null default now()";
    await client.query(`create schema latchkey; create table latchkey.migrations (${table})`);
    for (const { version, name, sql } of readMigrations().slice(0, 7)) {
      await client.query(sql.replaceAll(':"schema"', "latchkey"));
      await client.query("insert into latchkey.migrations (version, name) values ($1, $2)", [version, name]);
    }
    await client.end();
    return url;
  }

  /** One row of each shape that the check of version 7 takes. */
  const everyShape = `
    do $$
    declare
      s text;
      bits int;
    begin
      foreach s in array '{pending,in_progress,completed,failed,retryable,unknown,expired,done}'::text[] loop
        for bits in 0..63 loop
          begin
            insert into latchkey.records (tenant, scope, key, id, operation, state, fingerprint_version, fingerprint, attempt,
              token, created_at, answer, finished_at, expires_at, forget_at, reconcile_after, input)
            values ('t', s, bits::text, gen_random_uuid(), 'o', s, 1, '', 1, gen_random_uuid(), now(),
              case when bits & 1 > 0 then ''::bytea end, case when bits & 2 > 0 then now() end,
              case when bits & 4 > 0 then now() end, case when bits & 8 > 0 then now() end,
              case when bits & 16 > 0 then now() end, case when bits & 32 > 0 then ''::bytea end);
          exception when check_violation then null;
          end;
        end loop;
      end loop;
    end $$`;

  test("every row of version 7 passes, so that none is read", async () => {
    const pool = openPool(await atVersion7(), { max: 1 });
    await pool.query(everyShape);
    const scans = async () => {
      await pool.query("select pg_stat_force_next_flush()");
      const { rows } = await pool.query(
        "select pg_stat_get_numscans('latchkey.records'::regclass)::int as scans",
      );
      return rows[0]?.scans;
    };
    const before = await scans();
    expect((await migratePostgres(pool)).applied).toEqual(["0008_short_check"]);
    expect(await scans()).toBe(before);
    const written = await pool.query("update latchkey.records set attempt = attempt + 1");
    expect(
      written.rowCount,
      "pending 2, in_progress 2, completed 1, failed 2, retryable 4, unknown 4, expired 2",
    ).toBe(17);
    await pool.query("alter table latchkey.records validate constraint records_state");
    await pool.end();
  });

  test("processes that run go on", async () => {
    const url = await atVersion7();
    const pool = openPool(url, { max: 2 });
    const store = postgresStore({ pool });
    const latchkey = createLatchkey({ store });
    const pay = latchkey.operation("pay", { writes: "none" });
    const book = latchkey.operation("book", { execution: "lease" });
    const serve = async (key: string) => {
      for (const operation of [pay, book]) {
        const run = () => latchkey.run(operation, { tenant: "t", key, input: null }, async () => key);
        expect(await run()).toMatchObject({ kind: "executed", value: key });
        expect(await run()).toMatchObject({ kind: "replay", value: key });
      }
    };
    // Often enough that connections have prepared their statements.
    for (const round of [1, 2, 3, 4, 5, 6]) await serve(`before-${round}`);
    const migrator = openPool(url, { max: 1 });
    expect((await migratePostgres(migrator)).version).toBe(schemaVersion);
    for (const round of [1, 2, 3, 4, 5, 6]) await serve(`after-${round}`);
    await store.close();
    await Promise.all([pool.end(), migrator.end()]);
  });
});
