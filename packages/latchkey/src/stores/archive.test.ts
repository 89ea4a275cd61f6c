/** The ready archive, on a real Postgres and on PGlite. */

import type { PGlite } from "@electric-sql/pglite";
import type pg from "pg";
import { describe, expect, expectTypeOf, test } from "vitest";
import { openPlace } from "../../../../test/cli/arrange.ts";
import { readyPglite } from "../../../../test/support/ready-pglite.ts";
import { onRelease } from "../../../../test/support/resources.ts";
import { createLatchkey } from "../latchkey.ts";
import { recordCleaner } from "../workers/record-cleaner.ts";
import { type ArchiveClient, postgresArchive, postgresArchiveSql } from "./archive.ts";
import { migratePglite, pgliteStore } from "./pglite.ts";
import type { Store } from "./store.ts";

interface Opened {
  readonly store: Store<unknown>;
  readonly client: ArchiveClient;
  query(text: string): Promise<{ readonly rows: readonly Record<string, unknown>[] }>;
}

const databases: Readonly<Record<string, () => Promise<Opened>>> = {
  async Postgres() {
    const place = await openPlace();
    onRelease(() => place.close());
    return { store: place.store, client: place.pool, query: (text) => place.pool.query(text) };
  },
  async PGlite() {
    const database = await readyPglite();
    onRelease(() => database.close());
    await migratePglite(database);
    const query = async (text: string) => {
      const results = await database.exec(text);
      return { rows: results.at(-1)?.rows ?? [] };
    };
    return { store: pgliteStore({ database }), client: database, query };
  },
};

const select = `select tenant, operation, key, state, principal, attempt, fingerprint_version,
  length(answer) > 0 as has_answer, convert_from(summary, 'UTF8')::json as summary, finished_at >= created_at as in_order, now() - created_at < interval '1 hour' as now
  from latchkey_archive order by key`;

/** Records whose time is over at once. */
async function runTwo({ store }: Opened) {
  const latchkey = createLatchkey({ store, strict: false });
  const operation = latchkey.operation("orders.create", { retentionMs: 1, forgetAfterMs: 1 });
  const short = { retentionMs: 1, forgetAfterMs: 1 };
  const summarized = latchkey.operation("orders.cancel", { ...short, summary: { fields: ["why"] } });
  for (const [key, one] of [
    ["'quoted\\", operation],
    ["ü \u{1F511}", summarized],
  ] as const) {
    await latchkey.run(one, { tenant: 't"[]', key, input: { why: "ü \u{1F511}" } }, async () => ({ key }));
  }
  return latchkey;
}

describe.each(Object.keys(databases))("an archive in %s", (name) => {
  test("has what was forgotten, each record once", async () => {
    const opened = await databases[name]?.();
    if (opened === undefined) throw new Error("it is in the table");
    await opened.query(postgresArchiveSql());
    const latchkey = await runTwo(opened);
    const archive = postgresArchive({ client: opened.client });
    const cleaner = recordCleaner(latchkey, {
      // As if the first reply had been lost.
      async archive(records, context) {
        await archive(records, context);
        await archive(records, context);
      },
    });
    expect(await cleaner.runOnce()).toMatchObject({ forgotten: 2 });
    const { rows } = await opened.query(select);
    const same = {
      tenant: 't"[]',
      state: "completed",
      principal: null,
      attempt: 1,
      fingerprint_version: 1,
      has_answer: true,
      in_order: true,
      now: true,
    };
    expect(rows).toEqual([
      { ...same, key: "'quoted\\", operation: "orders.create", summary: null },
      {
        ...same,
        key: "ü \u{1F511}",
        operation: "orders.cancel",
        summary: { method: null, path: null, fields: { why: "ü \u{1F511}" } },
      },
    ]);
    expect((await opened.query("select count(*)::int as n from latchkey.records")).rows).toEqual([{ n: 0 }]);
  });

  test("without its table keeps the records, and reports what the database answered", async () => {
    const opened = await databases[name]?.();
    if (opened === undefined) throw new Error("it is in the table");
    const latchkey = await runTwo(opened);
    const cleaner = recordCleaner(latchkey, { archive: postgresArchive({ client: opened.client }) });
    await expect(cleaner.runOnce()).rejects.toMatchObject({
      code: "archive-failed",
      cause: expect.objectContaining({ code: "42P01" }),
    });
    expect((await opened.query("select count(*)::int as n from latchkey.records")).rows).toEqual([{ n: 2 }]);
  });
});

test("a table's name is plain, with its schema or without", () => {
  expect(postgresArchiveSql({ table: "history.requests" })).toContain('create table "history"."requests"');
  for (const table of ["a b", "a.b.c", 'a"', "A", ""]) {
    expect(() => postgresArchiveSql({ table })).toThrow(TypeError);
    expect(() => postgresArchive({ client: { query: async () => null }, table })).toThrow(TypeError);
  }
});

test("pg's pools and PGlite are clients", () => {
  expectTypeOf<pg.Pool>().toExtend<ArchiveClient>();
  expectTypeOf<pg.Client>().toExtend<ArchiveClient>();
  expectTypeOf<PGlite>().toExtend<ArchiveClient>();
});
