import pg from "pg";
import { expect, it } from "vitest";
import { forEachPostgres, freshDatabase, postgresVersions, sharedPostgres } from "./shared-postgres.ts";

async function value(url: string, sql: string): Promise<unknown> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return Object.values((await client.query(sql)).rows[0] ?? {})[0];
  } finally {
    await client.end();
  }
}

it("runs once on each version, in order", () => {
  const versions = postgresVersions();
  expect(versions).toEqual([...versions].sort());
  expect(new Set(versions).size).toBe(versions.length);
});

forEachPostgres((version, database) => {
  it("has a database of its own on the shared server of that version", async () => {
    expect(Math.floor(Number(await value(database.url, "show server_version_num")) / 10_000)).toBe(version);
    const shared = new URL(await sharedPostgres(version));
    expect(new URL(database.url).host).toBe(shared.host);
    expect(new URL(database.url).pathname).not.toBe(shared.pathname);
  });

  it("drops a database that has open connections, and copies one", async () => {
    const original = await freshDatabase({ version });
    const name = new URL(original.url).pathname.slice(1);
    await value(original.url, "create table t as select 7 as a");
    const copy = await freshDatabase({ version, template: name });
    expect(await value(copy.url, "select a from t")).toBe(7);

    const left = new pg.Client({ connectionString: original.url });
    const ended = new Promise((resolve) => left.on("error", resolve));
    await left.connect();
    await original.drop();
    expect(await ended).toMatchObject({ code: "57P01" });
    await copy.drop();
    const remaining = `select count(*)::int from pg_database where datname = '${name}'`;
    expect(await value(database.url, remaining)).toBe(0);
  });
});
