import { randomUUID } from "node:crypto";
import pg from "pg";
import { afterAll, beforeAll, describe, inject, it } from "vitest";
import { askControl } from "./control.ts";
import type {} from "./global-setup.ts";
import { notRun } from "./not-run.ts";
import type { PostgresVersion } from "./postgres-binaries.ts";
import { isThorough } from "./thorough.ts";
import { until } from "./until.ts";

export interface FreshDatabase {
  readonly url: string;
  /** Drops it. Connections still open after two seconds are ended by force (57P01). */
  drop(): Promise<void>;
}

export interface FreshDatabaseOptions {
  /** Superuser URL of the server. Default: the run's shared server of `version`. */
  server?: string;
  /** Default: the first of `postgresVersions`. */
  version?: PostgresVersion;
  /** Name of a database to copy, to which nobody is connected. Default: an empty one. */
  template?: string;
}

/** A database for use inside `forEachPostgres`; `url` may be read from `beforeAll` on, not while collecting. */
export interface TestDatabase {
  readonly url: string;
}

const CLOSING_LIMIT_MS = 2_000;

const urls = new Map<PostgresVersion, Promise<string>>();

/**
 * Major versions that tests should run on: the newest installed; under `npm run test:all` the oldest, too; all with
 * LATCHKEY_ALL_POSTGRES=1.
 */
export function postgresVersions(): PostgresVersion[] {
  const all = inject("postgresVersions");
  if (process.env.LATCHKEY_ALL_POSTGRES === "1") return all;
  return all.filter((_, index) => (isThorough && index === 0) || index === all.length - 1);
}

/**
 * Superuser URL of the server of that version which all test files of this run share; it starts on first use.
 * Never kill, stop or configure it: use `startPostgres` for that.
 */
export function sharedPostgres(version: PostgresVersion = usual()): Promise<string> {
  const url = urls.get(version) ?? askForServer(version);
  urls.set(version, url);
  return url;
}

async function askForServer(version: PostgresVersion): Promise<string> {
  const answer = await askControl(inject("controlPath"), { postgres: version });
  if ("error" in answer) throw new Error(answer.error);
  return answer.url;
}

/** The same as most tests have, so that a run needs one server. */
function usual(): PostgresVersion {
  const [version] = postgresVersions();
  if (!version) throw new Error("no PostgreSQL is installed");
  return version;
}

/** Creates a database with a random name, on the shared server unless another is given. */
export async function freshDatabase(options: FreshDatabaseOptions = {}): Promise<FreshDatabase> {
  const server = options.server ?? (await sharedPostgres(options.version));
  const name = `test_${randomUUID().replaceAll("-", "").slice(0, 16)}`;
  const template = options.template ?? "template0";
  // Copying files takes half the processor's time of the default, which writes every page to the log.
  const create = `create database ${name} template ${template} strategy file_copy`;
  await connected(server, (client) => client.query(create));
  const url = new URL(server);
  url.pathname = `/${name}`;
  return {
    url: url.href,
    drop: () => connected(server, (client) => dropDatabase(client, name)),
  };
}

/**
 * pg's `pool.end()` does not wait for the server to close the connections, and a connection that is ended from
 * outside while it is closing becomes an uncaught error. So sessions get a moment to go by themselves.
 */
async function dropDatabase(client: pg.Client, name: string): Promise<void> {
  const sessions = "select pid from pg_stat_activity where datname = $1";
  const empty = async () => (await client.query(sessions, [name])).rows.length === 0;
  await until(empty, { timeoutMs: CLOSING_LIMIT_MS }).catch(() => {});
  await client.query(`drop database if exists ${name} with (force)`);
}

async function connected(url: string, work: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}

/** Repeats a block of tests for each version of `postgresVersions`, each with a fresh database for the block. */
export function forEachPostgres(tests: (version: PostgresVersion, database: TestDatabase) => void): void {
  const versions = postgresVersions();
  if (versions.length === 0) {
    notRun("tests on PostgreSQL", "none is installed");
    it("runs on PostgreSQL", (context) => context.skip("none is installed"));
  }
  for (const version of versions) {
    describe(`PostgreSQL ${version}`, () => {
      let database: FreshDatabase | undefined;
      beforeAll(async () => {
        database = await freshDatabase({ version });
      });
      afterAll(() => database?.drop());
      tests(version, {
        get url() {
          if (!database) throw new Error("the database exists only while tests run");
          return database.url;
        },
      });
    });
  }
}
