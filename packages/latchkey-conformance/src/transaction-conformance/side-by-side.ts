/** Statements that a handler sends in parallel, as under `Promise.all`, in one transaction. */
import assert from "node:assert/strict";
import { commit, gone, insertText, newRow, onlyValue, stayed, transact, works } from "./arrange.ts";
import type { BridgeCase, BridgeContext } from "./case.ts";

/** More than a pool has connections, so that a pool cannot give each statement its own. */
const count = 8;

const numbers = Array.from({ length: count }, (_, index) => index);

const transactionIdText = "select pg_catalog.pg_current_xact_id()::text as id";

/** Inserts `rows` in parallel, and returns the ids of the transactions in which the server ran the statements. */
async function insertAll(
  { execute }: BridgeContext,
  tx: unknown,
  rows: readonly string[],
): Promise<string[]> {
  const text = `${insertText}, pg_catalog.pg_current_xact_id()::text as id`;
  const results = await Promise.all(rows.map((row) => execute(tx, text, [row])));
  assert.deepEqual(
    results.map(([inserted]) => inserted?.row),
    rows,
    "each statement must get its own result",
  );
  return results.map(([inserted]) => String(inserted?.id));
}

const endings: readonly BridgeCase[] = (["commit", "rollback"] as const).map((end) => ({
  name: `parallel: statements are in one transaction, and ${end} ends them together`,
  async run(context) {
    const rows = numbers.map(newRow);
    const outcome = await transact(context, async ({ tx }) => {
      const id = String(onlyValue(await context.execute(tx, transactionIdText)));
      const ids = await insertAll(context, tx, rows);
      assert.deepEqual(new Set(ids), new Set([id]), "the statements must be in the handler's transaction");
      return end === "commit" ? commit() : { end, value: "" };
    });
    assert.equal(outcome.kind, end === "commit" ? "committed" : "rolled_back");
    for (const row of rows) {
      if (end === "commit") await stayed(context, row);
      else await gone(context, row, "after a rollback of parallel statements");
    }
    await works(context);
  },
}));

export const sideBySideCases: readonly BridgeCase[] = [
  ...endings,
  {
    name: "parallel: each statement gets its own result, however long each takes",
    async run(context) {
      await transact(context, async ({ tx }) => {
        const slowFirst = numbers.map((number) => {
          const seconds = number === 0 ? 0.05 : 0;
          const text = "select $1::int as n from pg_catalog.pg_sleep($2::float8)";
          return context.execute(tx, text, [number, seconds]);
        });
        assert.deepEqual((await Promise.all(slowFirst)).map(onlyValue), numbers);
        return commit();
      });
    },
  },
  {
    name: "parallel: the one that fails rejects first, and the transaction is refused with 25P02",
    async run(context) {
      const rows = numbers.map(newRow);
      const outcome = await transact(context, async ({ tx }) => {
        const sent = rows.map((row, index) =>
          index === 3
            ? context.execute(tx, "select 1 / 0 as failed")
            : context.execute(tx, insertText, [row]),
        );
        const settled = await Promise.allSettled(sent);
        const failed = settled.findIndex(({ status }) => status === "rejected");
        assert.equal(failed, 3, "the statements before the one that fails must succeed");
        return commit();
      });
      assert.equal(outcome.kind, "refused");
      assert.ok("sqlState" in outcome);
      assert.equal(outcome.sqlState, "25P02");
      for (const row of rows) await gone(context, row, "of an aborted transaction");
      await works(context);
    },
  },
];
