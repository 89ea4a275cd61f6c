/** What one epoch takes place in: a private Postgres, the other side, and servers behind proxies of their own. */
import { rmSync } from "node:fs";
import pg from "pg";
import { migratePostgres } from "../../../packages/latchkey/src/stores/postgres.ts";
import type { PostgresVersion } from "../../support/postgres-binaries.ts";
import { type PrivatePostgres, startPostgres } from "../../support/private-postgres.ts";
import { scratchDirectory } from "../../support/scratch.ts";
import { wholeShapes } from "../../support/whole-shapes.ts";
import { drawFrom, seedOf } from "../harness/seeded.ts";
import { type Downstream, openDownstream } from "./downstream.ts";
import type { Plant } from "./plants.ts";
import { openPlace, type Place } from "./servers.ts";

export interface ArenaSettings {
  readonly seed: bigint;
  readonly version: PostgresVersion;
  readonly servers: number;
  readonly leaseMs: number;
  readonly plant: Plant | null;
}

export interface Arena {
  readonly postgres: PrivatePostgres;
  readonly downstream: Downstream;
  readonly places: readonly Place[];
  readonly leaseMs: number;
  /** Past every proxy, as superuser; none of its connections outlives a statement. */
  query<Row extends object>(sql: string, values?: unknown[]): Promise<readonly Row[]>;
  close(): Promise<void>;
}

/**
 * `fsync` stays off, as a kill leaves what the kernel has been given; COMMIT is as synchronous as ever. A kill may tear a page
 * of 8 kB that is being written, so pages are written whole.
 */
const conf = { fsync: false, synchronous_commit: true, full_page_writes: true, max_connections: 100 };

/** No constraint: a duplicate is to be seen, not refused. */
const tables = `
  create table business (route text, tenant text, key text, body text, execution text);
  create table settled (route text, tenant text, key text, body text, execution text);
  create table noted (name text)`;

export async function openArena(settings: ArenaSettings): Promise<Arena> {
  const postgres = await startPostgres({ version: settings.version, conf });
  const pool = new pg.Pool({ ...postgres.connection, max: 1 });
  await migratePostgres(pool);
  await pool.query(wholeShapes());
  await pool.query(tables);
  await pool.end();
  const downstream = await openDownstream(drawFrom(seedOf(settings.seed, 1)));
  const compileCache = scratchDirectory("us");
  const open = (index: number) =>
    openPlace(index, {
      databaseUrl: postgres.url,
      databasePort: postgres.port,
      downstreamUrl: downstream.url,
      leaseMs: settings.leaseMs,
      plant: settings.plant,
      compileCache,
    });
  // The first one fills the cache for the others.
  const places = [await open(0)];
  const others = Array.from({ length: settings.servers - 1 }, (_, at) => open(at + 1));
  places.push(...(await Promise.all(others)));
  return {
    postgres,
    downstream,
    places,
    leaseMs: settings.leaseMs,
    query: (sql, values) => postgres.admin(sql, values),
    async close() {
      await Promise.all(places.map((place) => place.stop()));
      await downstream.close();
      await postgres.stop();
      rmSync(compileCache, { recursive: true, force: true });
    },
  };
}
