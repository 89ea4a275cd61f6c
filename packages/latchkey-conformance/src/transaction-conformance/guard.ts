/** The guard around `tx`: what it refuses, what it allows, and until when. */
import assert from "node:assert/strict";
import {
  backendOf,
  commit,
  gone,
  insertText,
  newRow,
  refusedWith,
  stayed,
  transact,
  works,
  writing,
} from "./arrange.ts";
import type { BridgeCase } from "./case.ts";

const controls = [
  "commit",
  "ROLLBACK",
  "begin",
  "start transaction",
  "end",
  "abort",
  "/* by accident */ commit and chain",
  "prepare transaction 'latchkey'",
];

export const guardCases: readonly BridgeCase[] = [
  {
    name: "guard: refuses transaction control, and the transaction continues",
    async run(context) {
      const row = newRow();
      const outcome = await writing(context, row, async ({ tx }) => {
        for (const text of controls) {
          await refusedWith(context, "transaction-control", () => context.execute(tx, text), text);
        }
        await refusedWith(context, "transaction-control", context.prepare(tx, "commit"), "a prepared COMMIT");
        return { end: "rollback", value: "" };
      });
      assert.equal(outcome.kind, "rolled_back");
      await gone(context, row, "after rollback");
      await works(context);
    },
  },
  {
    name: "guard: allows savepoints",
    async run(context) {
      const [kept, undone] = [newRow(), newRow()];
      const outcome = await writing(context, kept, async ({ tx }) => {
        await context.execute(tx, "savepoint latchkey_suite");
        await context.execute(tx, insertText, [undone]);
        await assert.rejects(context.execute(tx, "select 1 / 0 as failed"));
        await context.execute(tx, "rollback to savepoint latchkey_suite");
        await context.execute(tx, "release savepoint latchkey_suite");
        return commit();
      });
      assert.equal(outcome.kind, "committed");
      await stayed(context, kept);
      await gone(context, undone, "after rolling back to a savepoint");
    },
  },
  {
    name: "guard: reports whether `tx` was used",
    async run(context) {
      await transact(context, async ({ used, tx }) => {
        assert.equal(used(), false, "the bridge's own statements must not count as use of `tx`");
        await context.execute(tx, "select 1 as one");
        assert.equal(used(), true);
        return { end: "rollback", value: "" };
      });
      await transact(context, async ({ used }) => {
        assert.equal(used(), false, "every transaction must have its own state");
        return commit();
      });
    },
  },
  {
    name: "guard: a revoked `tx` refuses statements, even those prepared before, and the rest is committed",
    async run(context) {
      const [early, late] = [newRow(), newRow()];
      const outcome = await writing(context, early, async ({ tx, revoke }) => {
        const send = context.prepare(tx, `insert into latchkey_rows (row) values ('${late}')`);
        revoke();
        revoke();
        await refusedWith(
          context,
          "tx-revoked",
          () => context.execute(tx, insertText, [late]),
          "a late statement",
        );
        await refusedWith(context, "tx-revoked", send, "a statement prepared before");
        return commit();
      });
      assert.equal(outcome.kind, "committed");
      await stayed(context, early);
      await gone(context, late, "of what was sent after revoking");
    },
  },
  {
    name: "guard: after any end, `tx` refuses statements, even while another transaction runs",
    async run(context) {
      for (const end of ["commit", "rollback", "abandon", "throw"] as const) {
        const late = newRow();
        const kept: { tx?: unknown; send?: () => Promise<unknown> } = {};
        const run = transact(context, async ({ tx }) => {
          await context.execute(tx, "select 1 as one");
          kept.tx = tx;
          kept.send = context.prepare(tx, `insert into latchkey_rows (row) values ('${late}')`);
          if (end === "throw") throw new Error("the handler failed");
          return end === "commit" ? commit() : { end, value: "" };
        });
        await run.catch(() => {});
        const tryLate = async (when: string) => {
          const execute = () => context.execute(kept.tx, insertText, [late]);
          await refusedWith(context, "tx-revoked", execute, `a statement ${when} ${end}`);
          await refusedWith(
            context,
            "tx-revoked",
            async () => kept.send?.(),
            `a prepared statement ${when} ${end}`,
          );
        };
        await tryLate("after");
        await transact(context, async ({ tx }) => {
          await context.execute(tx, "select 1 as one");
          await tryLate("in the next transaction");
          return commit();
        });
        await gone(context, late, `of what was sent after ${end}`);
      }
      await works(context);
    },
  },
  {
    name: "guard: a statement that was not awaited is inside the transaction or refused, never in the next one",
    async run(context) {
      const row = newRow();
      let unawaited: Promise<unknown> = Promise.resolve();
      await transact(context, async ({ tx }) => {
        await backendOf(context, tx);
        unawaited = context.execute(tx, insertText, [row]).catch(() => {});
        return { end: "rollback", value: "" };
      });
      await transact(context, async ({ tx }) => {
        await backendOf(context, tx);
        return commit();
      });
      await unawaited;
      await gone(context, row, "of a statement in a transaction that was rolled back");
      await works(context);
    },
  },
];
