/** How transactions end: with COMMIT or without it, and what each end leaves. */
import assert from "node:assert/strict";
import type { BridgeWork, SqlStatement, SqlValue } from "latchkey";
import {
  backendOf,
  commit,
  failing,
  gone,
  holdsNothing,
  inserting,
  insertText,
  newRow,
  onlyValue,
  statement,
  stayed,
  transact,
  type Work,
  works,
  writing,
} from "./arrange.ts";
import type { BridgeCase, BridgeContext } from "./case.ts";

const selectText = "select row from latchkey_rows where row = $1::text";

const transactionId = statement("select pg_catalog.pg_current_xact_id()::text as id");

const quietEnds: readonly BridgeCase[] = (["rollback", "abandon"] as const).map((end) => ({
  name: `${end}: nothing is left, and the value is returned`,
  async run(context) {
    const row = newRow();
    const outcome = await writing(context, row, () => ({ end, value: "kept" }));
    assert.deepEqual({ ...outcome }, { kind: "rolled_back", value: "kept" });
    await gone(context, row, `after ${end}`);
    await works(context);
  },
}));

/** The handler swallowed an SQL error, so the server answers COMMIT with ROLLBACK. */
const aborted: readonly BridgeCase[] = [[], [inserting("never")]].map((closing: readonly SqlStatement[]) => ({
  name: `commit: in an aborted transaction it is refused with 25P02, ${closing.length === 0 ? "without" : "with"} closing statements`,
  async run(context) {
    const row = newRow();
    const outcome = await writing(context, row, async ({ tx }) => {
      await assert.rejects(context.execute(tx, "select 1 / 0 as failed"));
      return commit(closing);
    });
    refusedBy(outcome, "25P02");
    await gone(context, row, "of an aborted transaction");
    await works(context);
  },
}));

function refusedBy(outcome: { readonly kind: string }, sqlState: string): void {
  assert.equal(outcome.kind, "refused");
  assert.ok("sqlState" in outcome && "value" in outcome);
  assert.deepEqual([outcome.sqlState, outcome.value], [sqlState, "value"]);
}

async function closingFails(context: BridgeContext): Promise<void> {
  const [row, before, after] = [newRow(), newRow(), newRow()];
  const outcome = await writing(context, row, () => commit([inserting(before), failing, inserting(after)]));
  refusedBy(outcome, "22012");
  assert.ok(!("during" in outcome) || outcome.during === "closing", "a closing statement must have failed");
  for (const each of [row, before, after]) await gone(context, each, "when a closing statement raises");
  await works(context);
}

export const endCases: readonly BridgeCase[] = [
  {
    name: "commit: keeps what was written, and returns the value",
    async run(context) {
      const row = newRow();
      const outcome = await writing(context, row, () => commit());
      assert.deepEqual({ ...outcome, closed: [] }, { kind: "committed", value: "value", closed: [] });
      await stayed(context, row);
      await holdsNothing(context);
    },
  },
  {
    name: "commit: opening statements, work and closing statements are one transaction, in this order",
    async run(context) {
      const [first, second] = [newRow(), newRow()];
      let inside: readonly SqlValue[] = [];
      const work: Work = async ({ tx, opened }) => {
        inside = [onlyValue(opened[0]), onlyValue(await context.execute(tx, transactionId.text))];
        assert.equal(onlyValue(opened[1]), first);
        const found = await context.execute(tx, selectText, [first]);
        assert.equal(found.length, 1, "the work must see what the opening statements wrote");
        await context.execute(tx, insertText, [second]);
        return commit([statement(selectText, second), transactionId]);
      };
      const outcome = await transact(context, work, { opening: [transactionId, inserting(first)] });
      assert.ok(outcome.kind === "committed");
      assert.equal(onlyValue(outcome.closed[0]), second, "closing statements must see what the work wrote");
      const id = onlyValue(outcome.closed[1]);
      assert.deepEqual(inside, [id, id], "opening, work and closing must be in one transaction");
      await stayed(context, first);
    },
  },
  {
    name: "commit: refused if a closing statement raises, with its SQLSTATE, and nothing is left",
    run: closingFails,
  },
  {
    name: "commit: refused if COMMIT itself raises, with its SQLSTATE, and nothing is left",
    async run(context) {
      const row = newRow();
      const outcome = await writing(context, row, async ({ tx }) => {
        const text = "insert into latchkey_once (row) values ($1::text)";
        await context.execute(tx, text, [row]);
        await context.execute(tx, text, [row]);
        return commit([inserting(newRow())]);
      });
      refusedBy(outcome, "23505");
      assert.ok(!("during" in outcome) || outcome.during !== "closing", "COMMIT must have failed");
      await gone(context, row, "when COMMIT raises");
      await works(context);
    },
  },
  ...aborted,
  ...quietEnds,
  {
    name: "throw: the work's own error is rethrown, after everything was rolled back",
    async run(context) {
      for (const failure of [new Error("the handler failed"), "not even an error", undefined]) {
        const row = newRow();
        const thrown = await writing(context, row, (): BridgeWork<string> => {
          throw failure;
        }).then(
          () => assert.fail("the transaction must fail"),
          (error: unknown) => ({ error }),
        );
        assert.equal(thrown.error, failure);
        await gone(context, row, "after an exception");
      }
      await works(context);
    },
  },
  {
    name: "throw: even if the work left its transaction aborted",
    async run(context) {
      const row = newRow();
      const failure = new Error("the handler failed");
      const run = writing(context, row, async ({ tx }) => {
        await context.execute(tx, "select 1 / 0 as failed").catch(() => {});
        throw failure;
      });
      await assert.rejects(run, (error) => error === failure);
      await gone(context, row, "after an exception");
      await works(context);
    },
  },
  {
    name: "session: one that is rolled back takes nothing from another that committed meanwhile",
    needs: ({ sessions }) => sessions === "many",
    async run(context) {
      const [outer, inner] = [newRow(), newRow()];
      const pids: number[] = [];
      const outcome = await writing(context, outer, async ({ tx }) => {
        pids.push(await backendOf(context, tx));
        const other = await writing(context, inner, async (session) => {
          pids.push(await backendOf(context, session.tx));
          return commit();
        });
        assert.equal(other.kind, "committed");
        await stayed(context, inner);
        return { end: "rollback", value: "" };
      });
      assert.equal(outcome.kind, "rolled_back");
      assert.equal(new Set(pids).size, 2, "each must have its own connection");
      await gone(context, outer, "after rollback");
      await stayed(context, inner);
      await holdsNothing(context);
    },
  },
];
