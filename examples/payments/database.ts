/**
 * Where the example stores its payments: in Postgres if DATABASE_URL is set, otherwise in an embedded database in
 * ./.latchkey.
 */
import { join } from "node:path";
import type { Store } from "latchkey";

/** The part of a database that the example needs, which `pg` and PGlite have in common. */
export interface Database {
  query(text: string, values?: unknown[]): Promise<{ rows: Record<string, unknown>[] }>;
}

export interface OpenDatabase {
  readonly store: Store<Database>;
  readonly query: Database["query"];
  readonly description: string;
  close(): Promise<void>;
}

// `demo_`: DATABASE_URL may point to a database that already has a table `payments`.
const createPayments = `create table if not exists demo_payments (
  id integer generated always as identity primary key,
  account text not null,
  amount integer not null check (amount > 0),
  currency text not null,
  created_at timestamptz not null default now()
)`;

const createCharges = `create table if not exists demo_charges (
  id integer generated always as identity primary key,
  account text not null,
  order_name text not null,
  amount integer not null check (amount > 0),
  currency text not null,
  state text not null check (state in ('begun', 'charged', 'refused')),
  provider_charge text,
  created_at timestamptz not null default now()
)`;

/** @param folder that contains `.latchkey` with the embedded database; default: the current folder */
export async function openDatabase(url: string | undefined, folder = "."): Promise<OpenDatabase> {
  const opened = url === undefined ? await openEmbedded(folder) : await openPostgres(url);
  await opened.query(createPayments);
  await opened.query(createCharges);
  return opened;
}

async function openPostgres(connectionString: string): Promise<OpenDatabase> {
  const { default: pg } = await import("pg");
  const { migratePostgres, postgresStore } = await import("latchkey/postgres");
  const pool = new pg.Pool({ connectionString, connectionTimeoutMillis: 3_000 });
  // pg ends the process if an idle connection is lost and there is no listener; the pool opens another one.
  pool.on("error", (error) => console.error(`Lost a database connection: ${error.message}`));
  await migratePostgres(pool);
  return {
    store: postgresStore({ pool }),
    query: (text, values) => pool.query(text, values),
    description: "Postgres at DATABASE_URL",
    close: () => pool.end(),
  };
}

async function openEmbedded(folder: string): Promise<OpenDatabase> {
  const { PGlite } = await import("@electric-sql/pglite");
  const { openPglite } = await import("latchkey/pglite");
  const { store, database, close } = await openPglite(PGlite, {
    dataDir: join(folder, ".latchkey/payments"),
  });
  return {
    store,
    query: (text, values) => database.query(text, values),
    description: "the embedded database in ./.latchkey (for development)",
    close,
  };
}
