/** The tables that a run needs. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import pg from "pg";
import { schema } from "./http/jobs.ts";
import { byHandSchema } from "./http/peers/by-hand.ts";

/** The URL of another database on the same server. */
export function inDatabase(url: string, database: string): string {
  const other = new URL(url);
  other.pathname = `/${database}`;
  return other.href;
}

const migration = `
  import { migratePostgres } from "latchkey/postgres";
  import pg from "pg";
  const pool = new pg.Pool({ connectionString: process.env.LATCHKEY_BENCH_POSTGRES });
  await migratePostgres(pool);
  await pool.end();
`;

/**
 * Creates the handlers' tables, and Latchkey's by the checkout's own migrations, because tables of another version may be
 * faster or slower.
 *
 * @param database created first; absent: the URL's own
 */
export async function createTables(url: string, checkout: string, database?: string): Promise<void> {
  if (database !== undefined) await query(url, `create database ${database}`);
  const target = database === undefined ? url : inDatabase(url, database);
  await query(target, schema);
  await query(target, byHandSchema);
  await promisify(execFile)(
    process.execPath,
    ["--conditions=latchkey-source", "--input-type=module", "--eval", migration],
    { cwd: checkout, env: { ...process.env, LATCHKEY_BENCH_POSTGRES: target } },
  );
}

async function query(url: string, text: string): Promise<void> {
  const pool = new pg.Pool({ connectionString: url });
  await pool.query(text);
  await pool.end();
}
