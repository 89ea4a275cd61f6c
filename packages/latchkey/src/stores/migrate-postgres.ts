/** Numbered migrations of the Postgres schema: forward only, recorded, safe under concurrent runs. */
import { readdirSync, readFileSync } from "node:fs";
import { pause, systemPorts } from "../ports.ts";
import type { PgPool } from "../sql/pg/client.ts";
import { retryPauseMs } from "../time/retry-pause.ts";

export interface Migration {
  readonly version: number;
  /** The file's name without its ending. */
  readonly name: string;
  /** Text with `:"schema"` and `:'schema'` for the schema's name. */
  readonly sql: string;
}

export interface MigrationReport {
  readonly schema: string;
  /** Names of the migrations that were applied, in order. */
  readonly applied: readonly string[];
  /** The version the schema now has. */
  readonly version: number;
}

/** The same folder seen from `src/stores` and from `dist/stores`. */
const folder = new URL("../../sql/postgres/", import.meta.url);
const fileName = /^(\d{4})_[a-z0-9_]+\.sql$/;

/** All migrations this package brings, oldest first. */
export function readMigrations(): readonly Migration[] {
  return readdirSync(folder)
    .sort()
    .flatMap((file) => {
      const [, version] = fileName.exec(file) ?? [];
      if (version === undefined) return [];
      const sql = readFileSync(new URL(file, folder), "utf8");
      return [{ version: Number(version), name: file.slice(0, -".sql".length), sql }];
    });
}

function inSchema(sql: string, schema: string): string {
  return sql.replaceAll(':"schema"', `"${schema}"`).replaceAll(":'schema'", `'${schema}'`);
}

/** Checks first, because CREATE SCHEMA IF NOT EXISTS requires a privilege even when there is nothing to create. */
const foundation = `do $latchkey$
begin
  if not exists (select from pg_catalog.pg_namespace where nspname = :'schema') then
    create schema :"schema";
  end if;
end
$latchkey$;

create table if not exists :"schema".migrations (
  version integer primary key,
  name text not null,
  applied_at timestamptz not null default now()
);
`;

function recorded({ version, name, sql }: Migration): string {
  return `-- ${name}\n${sql}\ninsert into :"schema".migrations (version, name) values (${version}, '${name}');\n`;
}

/** The SQL of all migrations above version `after`, for one run in a schema that is new or at that version. */
export function renderMigrations(schema: string, after: number): string {
  const later = readMigrations().filter(({ version }) => version > after);
  const head = `-- Latchkey, schema "${schema}"${after > 0 ? `, from version ${after}` : ""}\n`;
  const parts = [...(after > 0 ? [] : [foundation]), ...later.map(recorded)];
  return head + parts.map((part) => inSchema(part, schema)).join("\n");
}

interface MigratorQuery {
  readonly text: string;
  readonly rowMode: "array";
  readonly types: { readonly getTypeParser: () => (text: unknown) => string };
}

/** The part of a pool that migrating needs. */
interface Migrator {
  connect(): Promise<MigratorClient>;
}

interface MigratorClient {
  query(
    statement: string | MigratorQuery,
    values?: readonly unknown[],
  ): Promise<{ readonly rows: readonly unknown[] }>;
  on(event: "error", listener: () => void): unknown;
  release(error?: boolean): void;
}

/** If several processes start together, all but one wait between tries, and then find nothing to do. */
const lockPauses = { firstMs: 20, maxMs: 500 };

/** In one message, because a role's own limit on idle time may be shorter than a busy process takes between two statements. */
const begin = "begin isolation level read committed; set local idle_in_transaction_session_timeout = '1min'";

/**
 * Opens the transaction that migrates, once this process is the only one. It retries instead of waiting inside a statement,
 * because `lock_timeout`, `statement_timeout` and a pool's `query_timeout` would end that wait. Each try begins a new
 * transaction, so that it sees what another process has committed, whatever the isolation level.
 */
async function beginAlone(client: MigratorClient, lock: string): Promise<void> {
  const { clock, random } = systemPorts;
  for (let tries = 1; ; tries++) {
    await client.query(begin);
    const taken = await client.query(
      `select 1 as version
       where pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtextextended($1, 0))`,
      [lock],
    );
    if (taken.rows.length === 1) return;
    await client.query("rollback");
    await pause(clock, retryPauseMs(tries, random, lockPauses));
  }
}

/** Returns values as the server's text, whatever parsers the pool or the process has set. */
function asText(text: string): MigratorQuery {
  return { text, rowMode: "array", types: { getTypeParser: () => String } };
}

export async function applyMigrations(pool: PgPool, schema: string): Promise<MigrationReport> {
  const migrator: Migrator = pool as PgPool & Migrator;
  const client = await migrator.connect();
  // Without a listener a connection that is lost between two statements would end the process.
  client.on("error", () => {});
  let broken = true;
  try {
    await beginAlone(client, `latchkey migrations of ${schema}`);
    // The migrations are written for a new session's setting.
    await client.query("set local standard_conforming_strings = on");
    await client.query(inSchema(foundation, schema));
    const { rows } = await client.query(asText(inSchema('select version from :"schema".migrations', schema)));
    const present = new Set(rows.map((row) => Number(Array.isArray(row) ? row[0] : Number.NaN)));
    const missing = readMigrations().filter(({ version }) => !present.has(version));
    for (const migration of missing) await client.query(inSchema(recorded(migration), schema));
    await client.query("commit");
    broken = false;
    const applied = missing.map(({ name }) => name);
    return { schema, applied, version: Math.max(...present, ...missing.map(({ version }) => version)) };
  } finally {
    // A failed migration leaves its transaction open; ending the connection rolls it back.
    client.release(broken);
  }
}
