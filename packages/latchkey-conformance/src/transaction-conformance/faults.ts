/** What a bridge reports and releases when the database fails. */
import assert from "node:assert/strict";
import { inspect } from "node:util";
import { isLatchkeyError, StoreError } from "latchkey";
import {
  asleep,
  backendOf,
  commit,
  failing,
  gone,
  holdsNothing,
  inserting,
  insertText,
  inTime,
  newRow,
  terminate,
  transact,
  until,
  works,
  writing,
} from "./arrange.ts";
import type { BridgeCapabilities, BridgeCase, BridgeContext } from "./case.ts";

/** More than a pool has in a test, so that a leak of one connection per round is detected. */
const leakRounds = 12;

/**
 * Returns the backend of a transaction that succeeded. Earlier tries may get a connection that had died without its client's
 * knowledge: each costs one try, and there are no more of them than connections.
 */
async function servingBackend(context: BridgeContext): Promise<number> {
  for (let tries = 1; ; tries++) {
    let pid = 0;
    try {
      await transact(context, async ({ tx }) => {
        pid = await backendOf(context, tx);
        return commit();
      });
      return pid;
    } catch (error) {
      if (!(error instanceof StoreError) || tries === leakRounds) throw error;
    }
  }
}

function withSessions({ sessions }: BridgeCapabilities): boolean {
  return sessions === "many";
}

async function failsToOpen(context: BridgeContext): Promise<void> {
  const row = newRow();
  let ran = false;
  const work = async () => {
    ran = true;
    return commit();
  };
  const error = await transact(context, work, { opening: [inserting(row), failing] }).then(
    () => assert.fail("the transaction must not open"),
    (failure: unknown) => failure,
  );
  assert.ok(error instanceof StoreError && isLatchkeyError(error), `${error} must be a StoreError`);
  assert.equal(error.certainty, "rolled_back");
  assert.equal(ran, false, "the work must not run");
  await gone(context, row, "of a transaction that did not open");
}

/** Leaves a query running in `tx` that does not end on its own. */
async function hang(context: BridgeContext, tx: unknown, pid: number): Promise<void> {
  context.execute(tx, "select 1 as slept from pg_catalog.pg_sleep(600)").catch(() => {});
  await asleep(context, pid);
}

export const faultCases: readonly BridgeCase[] = [
  {
    name: "open: an opening statement that raises is a StoreError, the work does not run, no connection is held",
    async run(context) {
      for (let round = 0; round < leakRounds; round++) await failsToOpen(context);
      await works(context);
    },
  },
  {
    name: "open: an error does not show the values of its statements",
    async run(context) {
      const secret = `secret-${newRow()}`;
      const { text, name } = failing;
      const opening = [
        inserting(secret),
        { name: `${name}_v`, text: `${text} where $1::text <> ''`, values: [secret] },
      ];
      const error = await transact(context, async () => commit(), { opening }).catch(
        (failure: unknown) => failure,
      );
      assert.ok(error instanceof StoreError);
      assert.ok(!inspect(error, { depth: 10 }).includes(secret), "keys must not reach logs through errors");
    },
  },
  {
    name: "open: connections that died in the pool are not lost to it",
    needs: withSessions,
    async run(context) {
      for (let round = 0; round < leakRounds; round++) {
        await terminate(context, await servingBackend(context));
        await transact(context, async () => commit()).catch((error: unknown) => {
          assert.ok(error instanceof StoreError, `${error} must be a StoreError`);
        });
      }
      await servingBackend(context);
      await works(context);
    },
  },
  {
    name: "killed: before COMMIT, nothing is committed, and no commit is reported",
    needs: withSessions,
    async run(context) {
      for (const end of ["commit", "rollback"] as const) {
        const row = newRow();
        const outcome = await writing(context, row, async ({ tx }) => {
          await terminate(context, await backendOf(context, tx));
          return end === "commit" ? commit([inserting(newRow())]) : { end, value: "value" };
        });
        const expected = end === "commit" ? ["refused", "in_doubt"] : ["rolled_back"];
        assert.ok(expected.includes(outcome.kind), `${end} after a kill must not be ${outcome.kind}`);
        await gone(context, row, "of a connection killed before COMMIT");
      }
      await works(context);
    },
  },
  {
    name: "killed: the work's own error is rethrown if its statement was hit",
    needs: withSessions,
    async run(context) {
      const row = newRow();
      let seen: unknown;
      const run = writing(context, row, async ({ tx }) => {
        await terminate(context, await backendOf(context, tx));
        await context.execute(tx, "select 1 as one").catch((error: unknown) => {
          seen = error;
          throw error;
        });
        return commit();
      });
      await assert.rejects(run, (error) => error === seen);
      await gone(context, row, "of a connection killed before COMMIT");
      await works(context);
    },
  },
  {
    name: "killed: during COMMIT, the outcome is in doubt",
    needs: withSessions,
    async run(context) {
      const row = newRow();
      let pid = 0;
      const outcome = writing(context, row, async ({ tx }) => {
        pid = await backendOf(context, tx);
        await context.execute(tx, "insert into latchkey_slow (seconds) values (600)");
        return commit();
      });
      await until(context, "the work is done", async () => pid > 0);
      await asleep(context, pid);
      await terminate(context, pid);
      const { kind, value } = await outcome;
      assert.deepEqual([kind, value], ["in_doubt", "value"]);
      await gone(context, row, "of a COMMIT that was killed");
      await works(context);
    },
  },
  {
    name: "abandon: does not wait for a statement that hangs, and its connection is not used again",
    needs: withSessions,
    async run(context) {
      const row = newRow();
      let pid = 0;
      const run = writing(context, row, async ({ tx }) => {
        pid = await backendOf(context, tx);
        await hang(context, tx, pid);
        return { end: "abandon", value: "kept" };
      });
      assert.deepEqual(
        { ...(await inTime(context, "to abandon", run)) },
        { kind: "rolled_back", value: "kept" },
      );
      await holdsNothing(context);
      await transact(context, async ({ tx }) => {
        assert.notEqual(await backendOf(context, tx), pid);
        return commit();
      });
      await terminate(context, pid);
      await gone(context, row, "after abandon");
      await works(context);
    },
  },
  {
    name: "leak: many transactions that end in every way hold no connection in the end",
    async run(context) {
      for (let round = 0; round < leakRounds; round++) {
        await writing(context, newRow(), () => commit([failing]));
        await writing(context, newRow(), () => ({ end: "abandon", value: "" }));
        await transact(context, async ({ tx }) => {
          await context.execute(tx, insertText, [newRow()]);
          throw new Error("the handler failed");
        }).catch(() => {});
      }
      await works(context);
    },
  },
];
