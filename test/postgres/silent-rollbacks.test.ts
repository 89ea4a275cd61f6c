/**
 * A handler that swallows a SQL error: Postgres answers COMMIT with ROLLBACK. What each client reports of such a
 * transaction of its own, and what Latchkey reports of the same one through that client's bridge.
 */
import type pg from "pg";
import { createPool, sql as slonikSql } from "slonik";
import { beforeAll, describe, expect, test } from "vitest";
import { onRelease } from "../support/resources.ts";
import { clients, type OpenClient, type Say } from "./clients.ts";
import { committedRows, migratedDatabase, openPool } from "./harness.ts";

/** It has no bridge of Latchkey's; the page names it beside the others. */
const slonik = {
  reports: "success",
  async open(pool: pg.Pool): Promise<Pick<OpenClient, "alone">> {
    const { connectionString = "" } = pool.options;
    const opened = await createPool(connectionString);
    onRelease(() => opened.end());
    return {
      alone: (work) =>
        opened.transaction((tx) => work((text) => tx.query({ ...slonikSql.unsafe``, sql: text }))),
    };
  },
} as const;

const swallowing =
  (row: string) =>
  async (say: Say): Promise<"paid"> => {
    await say(`insert into business values ('${row}')`);
    await say("select 1 / 0").catch(() => {});
    return "paid";
  };

describe.each(Object.entries({ ...clients, Slonik: slonik }))(
  "a swallowed SQL error through %s",
  (name, { reports, open }) => {
    let pool: pg.Pool;
    let client: Pick<OpenClient, "alone"> | OpenClient;
    beforeAll(async () => {
      pool = openPool(await migratedDatabase(), { max: 3 });
      client = await open(pool);
    });

    test(`the client alone reports ${reports}, and nothing is written`, async () => {
      const run = client.alone(swallowing(`${name} alone`));
      await (reports === "success" ? expect(run).resolves.toBe("paid") : expect(run).rejects.toThrow());
      expect(await committedRows(pool)).toEqual([]);
    });

    test("a last statement of one's own makes the client alone report the failure", async () => {
      const run = client.alone(async (say) => {
        const value = await swallowing(name)(say);
        await say("select 1");
        return value;
      });
      await expect(run).rejects.toThrow();
      expect(await committedRows(pool)).toEqual([]);
    });

    test.skipIf(name === "Slonik")(
      "Latchkey reports the failure, nothing is written, and the key is free",
      async () => {
        const { handle } = client as OpenClient;
        await expect(handle("k", swallowing(name))).rejects.toMatchObject({ code: "transaction-aborted" });
        expect(await committedRows(pool)).toEqual([]);
        const retry = await handle("k", async (say) => {
          await say(`insert into business values ('${name}')`);
          return "paid";
        });
        expect(retry).toMatchObject({ kind: "executed", value: "paid" });
        expect(await committedRows(pool)).toEqual([name]);
      },
    );
  },
);
