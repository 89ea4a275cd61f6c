/** `transactions.runOptimistic`: the work starts before its transaction is open. */
import assert from "node:assert/strict";
import { isLatchkeyError, type StoreCapabilities } from "latchkey";
import type { OptimisticTransaction, TransactionOutcome, TransactionWork } from "latchkey/internal";
import { newKey, readRecord } from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { commitOf, isExclusive, newRow, requestFor, transactional } from "./transactions-arrange.ts";

function withOptimisticAdmission({ transactions, optimisticAdmission }: StoreCapabilities): boolean {
  return transactions && optimisticAdmission === true;
}

const notAdmitted = (error: unknown) => isLatchkeyError(error) && error.code === "not-admitted";
const rollback = (): TransactionWork<string> => ({ end: "rollback", value: "" });

type Admit = Parameters<RunOptimistic>[1];
type Work = (open: OptimisticTransaction<unknown>) => Promise<TransactionWork<string>>;
type RunOptimistic = NonNullable<ReturnType<typeof transactional>["support"]["runOptimistic"]>;

function running(context: CaseContext) {
  const { support, otherSupport, business } = transactional(context);
  const key = newKey();
  const { runOptimistic } = support;
  assert.ok(runOptimistic, "a store that declares optimistic admission must have `runOptimistic`");
  return {
    key,
    business,
    support,
    run: (admit: Admit, work: Work): Promise<TransactionOutcome<string>> =>
      runOptimistic<string>(requestFor(key), admit, work),
    /** Asserts that `row` is not stored, that there is no record, and that the key is free. */
    async leftNothing(row: string) {
      assert.ok(!(await business.committedRows()).includes(row), "the row must be gone");
      assert.equal((await context.other.read(key)).record, null, "no record may be left");
      assert.equal(await isExclusive(otherSupport, key), true, "the key must be free");
    },
  };
}

export const optimisticTransactionCases: readonly StoreCase[] = [
  {
    name: "early transactions: the first statement opens the transaction, which commits rows and record",
    needs: withOptimisticAdmission,
    async run(context) {
      const { key, business, run } = running(context);
      const rows = [newRow(), newRow()];
      const order: string[] = [];
      const outcome = await run(
        async ({ reading, exclusive }) => {
          assert.deepEqual([reading.record, exclusive], [null, true]);
          order.push("admitted");
          return true;
        },
        async (open) => {
          assert.equal(open.used(), false);
          order.push("started");
          for (const row of rows) await business.write(open.tx, row);
          order.push("wrote");
          assert.deepEqual([open.used(), await open.admitted()], [true, true]);
          return commitOf(key);
        },
      );
      assert.equal(outcome.kind, "committed");
      assert.deepEqual(order, ["started", "admitted", "wrote"]);
      const committed = await business.committedRows();
      assert.ok(rows.every((row) => committed.includes(row)));
      assert.equal((await readRecord(context, key)).state, "completed");
    },
  },
  {
    name: "early transactions: statements of a run that is not admitted reject, even in parallel, and leave nothing",
    needs: withOptimisticAdmission,
    async run(context) {
      const { business, run, leftNothing } = running(context);
      const rows = [newRow(), newRow()];
      await run(
        async () => false,
        async (open) => {
          const writes = await Promise.allSettled(rows.map((row) => business.write(open.tx, row)));
          for (const write of writes) {
            assert.ok(write.status === "rejected" && notAdmitted(write.reason), "it must reject");
          }
          assert.equal(await open.admitted(), false);
          await assert.rejects(business.write(open.tx, rows[0] ?? ""), notAdmitted);
          return rollback();
        },
      );
      for (const row of rows) await leftNothing(row);
    },
  },
  {
    name: "early transactions: an admission that throws admits nothing",
    needs: withOptimisticAdmission,
    async run(context) {
      const { business, run, leftNothing } = running(context);
      const row = newRow();
      const error = new Error("not now");
      await run(
        async () => Promise.reject(error),
        async (open) => {
          await assert.rejects(business.write(open.tx, row));
          await assert.rejects(open.admitted(), error);
          return rollback();
        },
      );
      await leftNothing(row);
    },
  },
  {
    name: "early transactions: a transaction that was neither opened nor admitted cannot be committed",
    needs: withOptimisticAdmission,
    async run(context) {
      const { key, business, run, leftNothing } = running(context);
      const row = newRow();
      await assert.rejects(
        run(
          async () => true,
          async () => commitOf(key),
        ),
        TypeError,
      );
      await leftNothing(row);
      const refused = run(
        async () => false,
        async (open) => {
          await business.write(open.tx, row).catch(() => {});
          return commitOf(key);
        },
      );
      await assert.rejects(refused, TypeError);
      await leftNothing(row);
    },
  },
  {
    name: "early transactions: `admitted` opens the transaction without a statement, once",
    needs: withOptimisticAdmission,
    async run(context) {
      const { key, run } = running(context);
      let asked = 0;
      const outcome = await run(
        async () => {
          asked += 1;
          return true;
        },
        async (open) => {
          assert.deepEqual(await Promise.all([open.admitted(), open.admitted()]), [true, true]);
          return commitOf(key);
        },
      );
      assert.deepEqual([outcome.kind, asked], ["committed", 1]);
      assert.equal((await readRecord(context, key)).state, "completed");
    },
  },
  {
    name: "early transactions: a second transaction of the key learns that it is not alone",
    needs: withOptimisticAdmission,
    async run(context) {
      const { key, business, support, run } = running(context);
      await support.run(requestFor(key), async () => {
        await run(
          async ({ exclusive }) => {
            assert.equal(exclusive, false);
            return false;
          },
          async (open) => {
            await assert.rejects(business.write(open.tx, newRow()), notAdmitted);
            return rollback();
          },
        );
        return rollback();
      });
    },
  },
  {
    name: "early transactions: a statement after `revoke` throws",
    needs: withOptimisticAdmission,
    async run(context) {
      const { business, run, leftNothing } = running(context);
      const row = newRow();
      await run(
        async () => true,
        async (open) => {
          open.revoke();
          await assert.rejects(
            async () => business.write(open.tx, row),
            (error: unknown) => isLatchkeyError(error) && error.code === "tx-revoked",
          );
          return rollback();
        },
      );
      await leftNothing(row);
    },
  },
];
