/** The bridge of docs/transactions/own-client.md keeps the contract that the page describes. */
import { readFile } from "node:fs/promises";
import { createLatchkey } from "latchkey";
import { migratePostgres, postgresStore } from "latchkey/postgres";
import { transactionConformance } from "latchkey-conformance";
import { describe, expect, test } from "vitest";
import { Db, dbTransactions } from "../../examples/transactions/own-bridge.ts";
import { migratedDatabase, openPool } from "../postgres/harness.ts";
import { forEachPostgres } from "../support/shared-postgres.ts";

forEachPostgres((_version, database) => {
  describe("a bridge of one's own keeps the bridge contract", () => {
    transactionConformance<Db>({
      test,
      sessions: "many",
      commitNotice: true,
      factory({ connections }) {
        const pool = openPool(database.url, { max: connections });
        const observer = openPool(database.url, { max: 2 });
        const bridge = dbTransactions({ pool });
        return {
          bridge,
          execute: (tx, text, values = []) => tx.rows(text, ...values),
          prepare: (tx, text) => tx.rows.bind(tx, text),
          outside: (text, values = []) => new Db(observer).rows(text, ...values),
          async makeStore() {
            await migratePostgres(pool);
            return postgresStore({ pool, transactions: bridge });
          },
          busyConnections: () => pool.totalCount - pool.idleCount,
          async close() {
            await Promise.all([pool.end(), observer.end()]);
          },
        };
      },
    });
  });
});

test("the page shows the bridge as it is", async () => {
  const [page, source] = await Promise.all(
    ["docs/transactions/own-client.md", "examples/transactions/own-bridge.ts"].map((path) =>
      readFile(new URL(`../../${path}`, import.meta.url), "utf8"),
    ),
  );
  expect(page).toContain(`\`\`\`ts\n${source}\`\`\`\n`);
});

test("a handler writes through it, and a nested transaction is a savepoint", async () => {
  const pool = openPool(await migratedDatabase(), { max: 3 });
  const db = new Db(pool);
  await db.rows("create table orders (item text)");
  const latchkey = createLatchkey({ store: postgresStore({ pool, transactions: dbTransactions({ pool }) }) });
  const createOrder = latchkey.operation("orders.create");
  const order = () =>
    latchkey.run(createOrder, { tenant: "t", key: "k", input: 1 }, async ({ tx }) => {
      await tx.rows("insert into orders values ($1)", "kettle");
      const failing = tx.nested(async (nested) => {
        await nested.rows("insert into orders values ($1)", "cup");
        throw new Error("only the inner one");
      });
      await expect(failing).rejects.toThrow("only the inner one");
      return tx.rows("select item from orders");
    });
  expect(await order()).toMatchObject({ kind: "executed", value: [{ item: "kettle" }] });
  expect(await order()).toMatchObject({ kind: "replay", value: [{ item: "kettle" }] });
  expect(await db.rows("select item from orders")).toEqual([{ item: "kettle" }]);
});
