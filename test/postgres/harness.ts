/** What the tests of the Postgres store share: a migrated database, pools that report leaks, and a clock to turn. */
import pg from "pg";
import { expect } from "vitest";
import { type Clock, systemPorts } from "../../packages/latchkey/src/ports.ts";
import { migratePostgres } from "../../packages/latchkey/src/stores/postgres.ts";
import type { PostgresVersion } from "../support/postgres-binaries.ts";
import { onRelease } from "../support/resources.ts";
import { freshDatabase } from "../support/shared-postgres.ts";
import { until } from "../support/until.ts";
import { wholeShapes } from "../support/whole-shapes.ts";

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

/** A database with Latchkey's schema, the check of whole shapes, and a table `business (row text)` without any constraint. */
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
    await pool.query(wholeShapes());
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

/** A time-out that tests end by hand: timers of exactly this length wait for `giveUp`. */
export const endlessMs = 77_777;

/** The system's clock, except that nobody loses patience before the test says so. */
export function patientClock(): { readonly ports: { readonly clock: Clock }; giveUp(): void } {
  const waiting = new Set<() => void>();
  const clock: Clock = {
    ...systemPorts.clock,
    startTimer(delayMs, task) {
      if (delayMs !== endlessMs) return systemPorts.clock.startTimer(delayMs, task);
      waiting.add(task);
      return () => waiting.delete(task);
    },
  };
  return {
    ports: { clock },
    giveUp() {
      for (const task of waiting) task();
    },
  };
}

/** A clock for `timeFunction: "public.my_clock()"` that stands still until its row is changed. */
export const turnableClock = `
  create table clock (at timestamptz not null);
  insert into clock values (date_trunc('milliseconds', clock_timestamp()));
  create function my_clock() returns timestamptz language sql volatile as 'select at from public.clock';`;
