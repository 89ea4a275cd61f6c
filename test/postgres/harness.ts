/** What the tests of the Postgres store share: a migrated database, pools that report leaks, and a clock to turn. */
import pg from "pg";
import { expect } from "vitest";
import { migratePostgres } from "../../packages/latchkey/src/stores/postgres.ts";
import type { PostgresVersion } from "../support/postgres-binaries.ts";
import { onRelease } from "../support/resources.ts";
import { freshDatabase } from "../support/shared-postgres.ts";
import { until } from "../support/until.ts";

export type TestTx = Omit<pg.PoolClient, "release">;

/** A pool that ends with the test file. Errors of idle clients, which faults cause, are expected. */
export function openPool(url: string, options: pg.PoolConfig = {}): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, max: 8, ...options });
  pool.on("error", () => {});
  let ended = false;
  const end = pool.end.bind(pool);
  pool.end = ((callback: () => void) => {
    ended = true;
    return end(callback);
  }) as typeof pool.end;
  onRelease(() => (ended ? undefined : end()));
  return pool;
}

/** A database with Latchkey's schema and a table `business (row text)` without any constraint. */
export async function migratedDatabase(version?: PostgresVersion): Promise<string> {
  const { url, drop } = await freshDatabase(version === undefined ? {} : { version });
  onRelease(drop);
  await prepareDatabase(url);
  return url;
}

export async function prepareDatabase(url: string): Promise<void> {
  const pool = new pg.Pool({ connectionString: url, max: 1 });
  try {
    await migratePostgres(pool);
    await pool.query("create table business (row text)");
  } finally {
    await pool.end();
  }
}

/** The committed business rows, as another session sees them. */
export async function committedRows(pool: pg.Pool): Promise<string[]> {
  const { rows } = await pool.query<{ row: string }>("select row from business");
  return rows.map(({ row }) => row);
}

/** Every client is back in the pool or gone, and nobody waits for one. */
export async function expectNoLeak(pool: pg.Pool): Promise<void> {
  await until(() => pool.idleCount === pool.totalCount && pool.waitingCount === 0, {
    what: `all clients are back (total ${pool.totalCount}, idle ${pool.idleCount}, waiting ${pool.waitingCount})`,
  });
  const { rows } = await pool.query<{ one: number }>("select 1 as one");
  expect(rows).toEqual([{ one: 1 }]);
}
