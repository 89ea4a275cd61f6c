/** Sessions with a setting from one of its origins, and a service that works in them. */
import { randomUUID } from "node:crypto";
import pg from "pg";
import { expect } from "vitest";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import { type PostgresStoreOptions, postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import type { PostgresVersion } from "../support/postgres-binaries.ts";
import { onRelease } from "../support/resources.ts";
import { migratedDatabase, openPool, type TestTx } from "./harness.ts";
import type { Origin, SettingRow } from "./settings-table.ts";

export interface SettingsDatabase {
  readonly url: string;
  readonly version: PostgresVersion;
  readonly admin: pg.Pool;
}

/** Hostile namesakes of what Latchkey's statements use, a role without any right to its tables, and its functions. */
const scenery = `
  create schema hostile_functions;
  create function hostile_functions.now() returns timestamptz language sql as 'select ''epoch''::timestamptz';
  create function hostile_functions.current_setting(text) returns text language sql as 'select ''hostile''';
  create function hostile_functions.clock_timestamp() returns timestamptz language sql as 'select ''epoch''::timestamptz';
  create table hostile_functions.records (id int);
  create table hostile_functions.business (row text);
  create schema hostile_operators;
  create function hostile_operators.never(uuid, uuid) returns boolean language sql immutable as 'select false';
  create function hostile_operators.never(text, text) returns boolean language sql immutable as 'select false';
  create operator hostile_operators.= (leftarg = uuid, rightarg = uuid, function = hostile_operators.never);
  create operator hostile_operators.= (leftarg = text, rightarg = text, function = hostile_operators.never);
  grant all on business to public;
`;

export async function settingsDatabase(version: PostgresVersion): Promise<SettingsDatabase> {
  const url = await migratedDatabase(version);
  const admin = openPool(url, { max: 2 });
  await admin.query(scenery);
  return { url, version, admin };
}

/** A role that can log in, with its URL; dropped with the test file. */
export async function newRole(
  { url, admin }: SettingsDatabase,
  attributes = "",
): Promise<{ name: string; url: string }> {
  const name = `settings_${randomUUID().slice(0, 8)}`;
  await admin.query(`create role ${name} login ${attributes}`);
  onRelease(async () => {
    const client = new pg.Client({ connectionString: url });
    await client.connect().catch(() => null);
    await client.query(`drop owned by ${name}; drop role ${name}`).catch(() => {});
    await client.end();
  });
  const own = new URL(url);
  own.username = name;
  return { name, url: own.href };
}

const quoted = ({ name, value }: SettingRow) =>
  name === "search_path" ? `${name} = ${value}` : `${name} = '${value}'`;

/** A pool whose sessions have the setting; handlers' own settings are not its matter. */
export async function poolWith(
  database: SettingsDatabase,
  row: SettingRow,
  origin: Origin,
): Promise<pg.Pool> {
  const { url, admin } = database;
  switch (origin) {
    case "options":
      return openPool(url, { max: 4, options: `-c ${row.name}=${row.value.replaceAll(" ", "\\ ")}` });
    case "hook": {
      const pool = openPool(url, { max: 4 });
      pool.on("connect", (client) => void client.query(`set ${quoted(row)}`));
      return pool;
    }
    case "role": {
      const role = await newRole(database, "superuser");
      await admin.query(`alter role ${role.name} set ${quoted(row)}`);
      return openPool(role.url, { max: 4 });
    }
    case "database": {
      const name = new URL(url).pathname.slice(1);
      await admin.query(`alter database ${name} set ${quoted(row)}`);
      const pool = openPool(url, { max: 4 });
      // Sessions have it from their start on; the next row must not.
      const clients = await Promise.all([1, 2, 3, 4].map(() => pool.connect()));
      const mending = new pg.Client({ connectionString: url });
      await mending.connect();
      await mending.query("set default_transaction_read_only = off");
      await mending.query(`alter database ${name} reset ${row.name}`);
      await mending.end();
      for (const client of clients) client.release();
      return pool;
    }
    case "handler":
      return openPool(url, { max: 4 });
    default:
      return origin satisfies never;
  }
}

type PoolerOptions = Partial<Pick<PostgresStoreOptions<TestTx>, "namedStatements" | "notify">>;

/** What a service does in these sessions: each kind of execution with its repetition. */
export function serviceOn(pool: pg.Pool, options: PoolerOptions = {}) {
  const store = postgresStore({ ...options, pool });
  const latchkey = createLatchkey({ store });
  const order = latchkey.operation("orders");
  // Refused on a pool of one.
  let mail: ReturnType<typeof mails> | null = null;
  const mails = () => latchkey.operation("mails", { execution: "lease" });
  const tenant = randomUUID();
  const runs = { order: 0, mail: 0 };
  return {
    store,
    latchkey,
    tenant,
    runs,
    order: (key: string, act: (tx: TestTx) => Promise<unknown> = async () => {}) =>
      latchkey.run(order, { tenant, key, input: key }, async ({ tx }) => {
        runs.order += 1;
        await tx.query("insert into public.business values ($1)", [`${tenant} ${key}`]);
        await act(tx);
        return { key };
      }),
    mail: (key: string) => {
      mail ??= mails();
      return latchkey.run(mail, { tenant, key, input: key }, async () => {
        runs.mail += 1;
        return { key };
      });
    },
    async close() {
      await store.close();
      await pool.end();
    },
  };
}

export type Service = ReturnType<typeof serviceOn>;

export async function businessRows({ admin }: SettingsDatabase, { tenant }: Service): Promise<number> {
  const { rows } = await admin.query<{ count: number }>(
    "select count(*)::int as count from business where row like $1",
    [`${tenant} %`],
  );
  return rows[0]?.count ?? -1;
}

/** Each kind of execution runs once and is replayed, and what is stored is what was given. */
export async function expectServed(
  database: SettingsDatabase,
  service: Service,
  act?: Parameters<Service["order"]>[1],
): Promise<void> {
  const key = "Schlüssel €";
  for (const kind of ["executed", "replay"]) {
    expect(await service.order(key, act)).toMatchObject({ kind, value: { key } });
    expect(await service.mail(key)).toMatchObject({ kind, value: { key } });
  }
  expect(await businessRows(database, service)).toBe(1);
  const { rows } = await database.admin.query(
    "select distinct state, key from latchkey.records where tenant = $1",
    [service.tenant],
  );
  expect(rows).toEqual([{ state: "completed", key }]);
  await service.store.clean(10);
}

/** Refused before any business code, by an error that says why. */
export async function expectRefused(
  database: SettingsDatabase,
  service: Service,
  says: RegExp,
): Promise<void> {
  const refusal = { code: expect.stringMatching(/^store-/), message: expect.stringMatching(says) };
  await expect(service.order("k")).rejects.toMatchObject(refusal);
  await expect(service.mail("k")).rejects.toMatchObject({ code: expect.stringMatching(/^store-/) });
  expect(service.runs).toEqual({ order: 0, mail: 0 });
  expect(await businessRows(database, service)).toBe(0);
}
