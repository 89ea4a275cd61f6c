/** Settings behind pgbouncer in transaction mode and behind pgpool, and connections that these drop. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { keepsContract } from "../proof/p6-failover/contract.ts";
import { notRun } from "../support/not-run.ts";
import { Pooler, type PoolerKind, type PoolerOptions } from "../support/pooler.ts";
import { freshDatabase, postgresVersions } from "../support/shared-postgres.ts";
import { until } from "../support/until.ts";
import { openPool } from "./harness.ts";
import {
  businessRows,
  expectRefused,
  expectServed,
  newRole,
  type SettingsDatabase,
  serviceOn,
  settingsDatabase,
} from "./settings-arrange.ts";
import { handlerRows, type SettingRow, settingRows } from "./settings-table.ts";

/** What stays on the server's connection is a matter of its own there. */
const transactional = handlerRows.filter(({ title }) => title !== "set role");

const [version = 15] = postgresVersions().slice(-1);

/** What docs/database-settings.md says of each. */
const options = {
  pgbouncer: { namedStatements: false, notify: false },
  pgpool: {},
} as const satisfies Record<PoolerKind, object>;

const rows = settingRows.filter(({ since = 0 }) => since <= version);
const of = (origin: "role" | "handler") =>
  rows
    .filter(({ origins }) => origins === undefined || origins.includes(origin))
    .map((row) => ({ row, title: `${row.name} = ${row.value}` }));

/** A setting of the role's own: poolers open their connections when they like. */
async function roleWith(database: SettingsDatabase, { name, value }: SettingRow): Promise<string> {
  const role = await newRole(database, "superuser");
  const quoted = name === "search_path" ? value : `'${value}'`;
  await database.admin.query(`alter role ${role.name} set ${name} = ${quoted}`);
  return role.name;
}

function loggedIn(pooler: Pooler, user: string): string {
  const url = new URL(pooler.url);
  url.username = user;
  return url.href;
}

describe.each(["pgbouncer", "pgpool"] as const)("behind %s", (kind) => {
  let database: SettingsDatabase;
  let pooler: Pooler | null;
  const roles = new Map<SettingRow, string>();

  beforeAll(async () => {
    database = await settingsDatabase(version);
    await database.admin.query(`
      do $$ begin
        if not exists (select from pg_roles where rolname = 'settings_tenant') then create role settings_tenant; end if;
      end $$;
      create function become_tenant() returns void language sql as 'select set_config(''role'', ''settings_tenant'', true)';
    `);
    for (const { row } of of("role")) roles.set(row, await roleWith(database, row));
    pooler = await Pooler.open(kind, { to: database.url, users: [...roles.values()] });
    if (pooler === null) notRun(`settings behind ${kind}`, "it is not to be had");
  });
  afterAll(async () => {
    await pooler?.stop();
    await database?.admin.query("drop owned by settings_tenant").catch(() => {});
  });

  test.each(of("role"))("$title by the role", async ({ row }) => {
    if (pooler === null) return;
    const url = loggedIn(pooler, roles.get(row) ?? "");
    const service = serviceOn(openPool(url, { max: 3 }), options[kind]);
    if (row.refuses === undefined) await expectServed(database, service);
    else await expectRefused(database, service, row.refuses);
    await service.close();
  });

  test.each(of("handler"))("$title by the handler", async ({ row }) => {
    if (pooler === null) return;
    const service = serviceOn(openPool(pooler.url, { max: 3 }), options[kind]);
    await expectServed(database, service, (tx) =>
      tx.query("select set_config($1, $2, true)", [row.name, row.value]),
    );
    await service.close();
  });

  test.each(transactional)("a handler: $title", async ({ act, refuses }) => {
    if (pooler === null) return;
    const service = serviceOn(openPool(pooler.url, { max: 3 }), options[kind]);
    if (refuses === undefined) {
      await expectServed(database, service, act);
    } else {
      const refusal = { code: "store-unavailable", message: expect.stringMatching(refuses) };
      await expect(service.order("k", act)).rejects.toMatchObject(refusal);
      expect(await service.order("k")).toMatchObject({ kind: "executed" });
    }
    await service.close();
  });

  test("the pooler dies between requests, and the next ones are served", async () => {
    if (pooler === null) return;
    const service = serviceOn(openPool(pooler.url, { max: 3 }), options[kind]);
    await service.order("before");
    await pooler.end();
    await expect(service.order("during")).rejects.toMatchObject({ code: "store-unavailable" });
    await pooler.start();
    await until(async () => (await service.order("during")).kind === "executed");
    expect(await service.order("before")).toMatchObject({ kind: "replay" });
    expect(await service.mail("after")).toMatchObject({ kind: "executed" });
    expect(await businessRows(database, service)).toBe(2);
    await service.close();
  });
});

test("a role that a handler sets for the session stays in pgbouncer: an error names it before any business code runs, and it does not last", async () => {
  const database = await settingsDatabase(version);
  const role = await newRole(database);
  await database.admin.query("grant all on business to public");
  const settings = { default_pool_size: 1 };
  const pooler = await Pooler.open("pgbouncer", { to: database.url, settings });
  if (pooler === null) return;
  const service = serviceOn(openPool(pooler.url, { max: 2 }), options.pgbouncer);
  const first = await service.order("first", (tx) => tx.query(`set role ${role.name}`));
  expect(first).toMatchObject({ kind: "executed" });
  await expect(service.mail("next")).rejects.toMatchObject({
    code: "store-unavailable",
    message: expect.stringContaining("SET LOCAL ROLE"),
  });
  expect(service.runs).toEqual({ order: 1, mail: 0 });
  // Its transaction is ended together with the connection, which pgbouncer replaces.
  expect(await service.order("next")).toMatchObject({ kind: "executed" });
  expect(await service.mail("next")).toMatchObject({ kind: "executed" });
  await service.close();
  await pooler.stop();
});

test("the store contract holds behind pgpool", async () => {
  const { url, drop } = await freshDatabase({ version });
  const pooler = await Pooler.open("pgpool", { to: url });
  if (pooler !== null) await keepsContract({ url: pooler.url, store: options.pgpool });
  await pooler?.stop();
  await drop();
});

describe("pgbouncer's own limits", () => {
  let database: SettingsDatabase;
  beforeAll(async () => {
    database = await settingsDatabase(version);
  });

  async function bounced(settings: PoolerOptions["settings"], named = false) {
    const pooler = await Pooler.open("pgbouncer", { to: database.url, settings: settings ?? {} });
    if (pooler === null) {
      notRun("pgbouncer's limits", "it is not to be had");
      return null;
    }
    const pool = openPool(pooler.url, { max: 4 });
    const service = serviceOn(pool, named ? {} : options.pgbouncer);
    return {
      pooler,
      pool,
      service,
      close: async () => {
        await service.close();
        await pooler.stop();
      },
    };
  }

  test("one connection to the server is enough for transactions and leases", async () => {
    const world = await bounced({ default_pool_size: 1 });
    if (world === null) return;
    const { service } = world;
    const keys = Array.from({ length: 12 }, (_, index) => `k${index}`);
    const done = await Promise.all(keys.flatMap((key) => [service.order(key), service.mail(key)]));
    expect(new Set(done.map(({ kind }) => kind))).toEqual(new Set(["executed"]));
    await world.close();
  });

  test("without the options for it, what is served is right, and what is refused ran nothing", async () => {
    const world = await bounced({ default_pool_size: 3 }, true);
    if (world === null) return;
    const { service } = world;
    const keys = Array.from({ length: 60 }, (_, index) => `k${index}`);
    const done = await Promise.allSettled(keys.map((key) => service.order(key)));
    const refused = done.filter(({ status }) => status === "rejected");
    for (const one of refused) {
      expect(one).toMatchObject({
        reason: { code: "store-unavailable", message: expect.stringContaining("namedStatements") },
      });
    }
    expect(await businessRows(database, service)).toBe(keys.length - refused.length);
    await world.close();
  });

  test("idle_transaction_timeout: all is rolled back, and the key runs again", async () => {
    const world = await bounced({ idle_transaction_timeout: 1 });
    if (world === null) return;
    const { service } = world;
    let pid = 0;
    const late = service.order("k", async (tx) => {
      pid = Number((await tx.query({ text: "select pg_backend_pid()", rowMode: "array" })).rows[0]?.[0]);
      await until(async () => {
        const sessions = "select from pg_stat_activity where pid = $1 and state = 'idle in transaction'";
        return (await database.admin.query(sessions, [pid])).rowCount === 0;
      });
    });
    await expect(late).rejects.toMatchObject({ code: expect.stringMatching(/^store-/) });
    expect(await businessRows(database, service)).toBe(0);
    expect(await service.order("k")).toMatchObject({ kind: "executed" });
    expect(await businessRows(database, service)).toBe(1);
    await world.close();
  });

  test("query_timeout in a handler's statement: nothing is kept, and the key runs again", async () => {
    const world = await bounced({ query_timeout: 1 });
    if (world === null) return;
    const { service } = world;
    await expect(service.order("k", (tx) => tx.query("select pg_sleep(3)"))).rejects.toThrow();
    expect(await businessRows(database, service)).toBe(0);
    // Postgres finds out that nobody is there when the statement has ended.
    await until(async () => (await service.order("k")).kind === "executed");
    expect(await businessRows(database, service)).toBe(1);
    await world.close();
  });

  test("client_idle_timeout: connections that the pooler closed are replaced", async () => {
    const world = await bounced({ client_idle_timeout: 1, server_lifetime: 1, server_idle_timeout: 1 });
    if (world === null) return;
    const { service, pool } = world;
    await expectServed(database, service);
    await until(() => pool.totalCount === 0, { what: "pgbouncer has closed them" });
    expect(await service.order("later")).toMatchObject({ kind: "executed" });
    expect(await service.mail("later")).toMatchObject({ kind: "executed" });
    await world.close();
  });
});
