/** `transactions.run`: business rows and the record commit or roll back together. */
import assert from "node:assert/strict";
import { type IsolationLevel, isLatchkeyError } from "latchkey";
import type { TransactionWork } from "latchkey/internal";
import { hour, newKey, putInState, readRecord, states } from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { isAfter, sameRecord, timed } from "./check.ts";
import {
  commitOf,
  isExclusive,
  newRow,
  requestFor,
  transactional,
  withImmediateAnswer,
  withTransactions,
  writing,
} from "./transactions-arrange.ts";

const revoked = (error: unknown) => isLatchkeyError(error) && error.code === "tx-revoked";

/** Asserts that nothing is left of a transaction that wrote `row` under `key`, and that the key is free. */
async function leavesNothing(context: CaseContext, key: ReturnType<typeof newKey>, row: string) {
  const { otherSupport, business } = transactional(context);
  assert.ok(!(await business.committedRows()).includes(row), "the row must be gone");
  assert.equal((await context.other.read(key)).record, null, "no record may be left");
  assert.equal(await isExclusive(otherSupport, key), true, "the key must be free");
}

const quietEnds: readonly StoreCase[] = (["rollback", "abandon"] as const).map((end) => ({
  name: `transactions: ${end} leaves neither rows nor record, and frees the key`,
  needs: withTransactions,
  async run(context) {
    const key = newKey();
    const row = newRow();
    const outcome = await writing(transactional(context), key, row, () => ({ end, value: "kept" }));
    assert.deepEqual({ ...outcome }, { kind: "rolled_back", value: "kept" });
    await leavesNothing(context, key, row);
  },
}));

const seen: readonly StoreCase[] = states.map((state) => ({
  name: `transactions: the look-up finds a record that is ${state}`,
  needs: withTransactions,
  async run(context) {
    const key = newKey();
    const record = await putInState(context, state, key);
    const { support } = transactional(context);
    await support.run(requestFor(key), async ({ reading }): Promise<TransactionWork<string>> => {
      sameRecord(reading.record, record, "the record as it is stored");
      return { end: "rollback", value: "" };
    });
  },
}));

const isolationLevels: readonly (IsolationLevel | null)[] = [
  null,
  "read committed",
  "repeatable read",
  "serializable",
];

const isolations: readonly StoreCase[] = isolationLevels.map((isolation) => ({
  name: `transactions: commits at isolation level ${isolation ?? "as the database has it"}`,
  needs: withTransactions,
  async run(context) {
    const key = newKey();
    const row = newRow();
    const { support, business } = transactional(context);
    const outcome = await support.run(requestFor(key, { isolation }), async (open) => {
      await business.write(open.tx, row);
      return commitOf(key);
    });
    assert.equal(outcome.kind, "committed");
    assert.ok((await business.committedRows()).includes(row));
  },
}));

export const transactionCases: readonly StoreCase[] = [
  {
    name: "transactions: the look-up finds nothing under a new key, and the transaction has the key alone",
    needs: withTransactions,
    async run(context) {
      const key = newKey();
      const { support } = transactional(context);
      const { now } = await context.store.read(key);
      await support.run(requestFor(key), async ({ reading, exclusive }): Promise<TransactionWork<string>> => {
        assert.equal(reading.record, null);
        assert.ok(reading.now >= now, "the reading must have the store's time");
        assert.equal(exclusive, true);
        return { end: "rollback", value: "" };
      });
    },
  },
  ...seen,
  {
    name: "transactions: commit stores the completed record and the rows",
    needs: withTransactions,
    async run(context) {
      const key = newKey();
      const row = newRow();
      const retention = { retentionMs: hour, forgetAfterMs: 2 * hour };
      const commit = commitOf(key, { retention });
      const all = transactional(context);
      const { result, ...span } = await timed(context, key, () => writing(all, key, row, () => commit));
      assert.ok((await all.business.committedRows()).includes(row));
      const record = await readRecord(context, key);
      assert.ok(record.state === "completed");
      const { createdAt, finishedAt, expiresAt, forgetAt } = record;
      isAfter(context, createdAt, span, 0, "createdAt");
      isAfter(context, finishedAt, span, 0, "finishedAt");
      isAfter(context, expiresAt, span, hour, "expiresAt");
      isAfter(context, forgetAt, span, 2 * hour, "forgetAt");
      assert.deepEqual({ ...result }, { kind: "committed", value: "value", expiresAt });
      const times = { createdAt, finishedAt, expiresAt, forgetAt };
      const { life, answer } = commit;
      const expected = { ...life, state: "completed", answer, lastErrorCode: null, ...times } as const;
      sameRecord(record, expected, "as given");
      assert.equal(await isExclusive(all.otherSupport, key), true, "the key must be free again");
    },
  },
  ...quietEnds,
  {
    name: "transactions: rethrows the work's error, after everything was rolled back",
    needs: withTransactions,
    async run(context) {
      const key = newKey();
      const row = newRow();
      const failure = new Error("the handler failed");
      const run = writing(transactional(context), key, row, () => {
        throw failure;
      });
      await assert.rejects(run, (error) => error === failure);
      await leavesNothing(context, key, row);
    },
  },
  {
    name: "transactions: others see nothing before the commit, and reading does not wait",
    needs: withImmediateAnswer,
    async run(context) {
      const key = newKey();
      const row = newRow();
      const all = transactional(context);
      await writing(all, key, row, async () => {
        assert.equal((await context.other.read(key)).record, null);
        assert.ok(!(await all.business.committedRows()).includes(row));
        return commitOf(key);
      });
      assert.ok((await all.business.committedRows()).includes(row));
    },
  },
  {
    name: "transactions: reports whether the handler has used `tx`",
    needs: withTransactions,
    async run(context) {
      const key = newKey();
      const { support, business } = transactional(context);
      await support.run(requestFor(key), async (open): Promise<TransactionWork<string>> => {
        assert.equal(open.used(), false);
        await business.write(open.tx, newRow());
        assert.equal(open.used(), true);
        return { end: "rollback", value: "" };
      });
    },
  },
  {
    name: "transactions: a revoked `tx` refuses statements, and what it wrote before is committed",
    needs: withTransactions,
    async run(context) {
      const key = newKey();
      const [early, late] = [newRow(), newRow()];
      const all = transactional(context);
      const outcome = await writing(all, key, early, async (open) => {
        open.revoke();
        open.revoke();
        await assert.rejects(all.business.write(open.tx, late), revoked);
        return commitOf(key);
      });
      assert.equal(outcome.kind, "committed");
      const rows = await all.business.committedRows();
      assert.deepEqual([rows.includes(early), rows.includes(late)], [true, false]);
    },
  },
  {
    name: "transactions: after its end, whatever the end, `tx` refuses statements",
    needs: withTransactions,
    async run(context) {
      const { support, business } = transactional(context);
      for (const end of ["commit", "rollback", "abandon", "throw"] as const) {
        const key = newKey();
        let kept: unknown;
        const run = support.run(requestFor(key), async (open): Promise<TransactionWork<string>> => {
          kept = open.tx;
          if (end === "throw") throw new Error("the handler failed");
          return end === "commit" ? commitOf(key) : { end, value: "" };
        });
        await run.catch(() => null);
        await assert.rejects(business.write(kept, newRow()), revoked, `after ${end}`);
      }
    },
  },
  {
    name: "transactions: undoing the writes keeps the answer",
    needs: withTransactions,
    async run(context) {
      const key = newKey();
      const row = newRow();
      const { support, business } = transactional(context);
      const outcome = await support.run(requestFor(key, { savepoint: true }), async (open) => {
        await business.write(open.tx, row);
        return commitOf(key, { undoWrites: true });
      });
      assert.equal(outcome.kind, "committed");
      assert.ok(!(await business.committedRows()).includes(row), "the row must be gone");
      assert.equal((await readRecord(context, key)).state, "completed");
    },
  },
  {
    name: "transactions: a savepoint alone undoes nothing",
    needs: withTransactions,
    async run(context) {
      const key = newKey();
      const row = newRow();
      const { support, business } = transactional(context);
      await support.run(requestFor(key, { savepoint: true }), async (open) => {
        await business.write(open.tx, row);
        return commitOf(key);
      });
      assert.ok((await business.committedRows()).includes(row));
    },
  },
  ...isolations,
];
