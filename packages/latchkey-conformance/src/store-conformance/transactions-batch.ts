/** `transactions.runBatch`: several keys in parts of one transaction. Optional for a store. */
import assert from "node:assert/strict";
import type { RecordKey } from "latchkey";
import type { BatchOutcome, BatchWork, OpenBatch, TransactionPart } from "latchkey/internal";
import { newKey, readRecord } from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import {
  commitOf,
  isExclusive,
  newRow,
  requestFor,
  transactional,
  withTransactions,
} from "./transactions-arrange.ts";

interface Batch {
  readonly keys: readonly RecordKey[];
  readonly rows: readonly string[];
  run(work: (open: OpenBatch<unknown>) => Promise<BatchWork<string>>): Promise<BatchOutcome<string>>;
  /** Writes the row with this index, in its own part. */
  write(open: OpenBatch<unknown>, place: number): Promise<TransactionPart<unknown>>;
  /** Commits the records with these indexes. */
  commit(...places: readonly number[]): BatchWork<string>;
  /** The indexes of the rows that are stored. */
  left(): Promise<readonly number[]>;
}

/** Null: the store has no batches. */
function batchOf(context: CaseContext): Batch | null {
  const { support, business } = transactional(context);
  const { runBatch } = support;
  if (runBatch === undefined) return null;
  const last = newKey();
  // Keys may travel in a list, with characters that mean something there.
  const keys = [newKey(), newKey(), { ...last, key: `${last.key} "{\\,}" null` }];
  const rows = keys.map(newRow);
  const { isolation, idleLimitMs } = requestFor(newKey());
  return {
    keys,
    rows,
    run: (work) => runBatch({ keys, isolation, idleLimitMs }, work),
    async write(open, place) {
      const part = open.part();
      await business.write(part.tx, rows[place] ?? "");
      part.revoke();
      return part;
    },
    commit: (...places) => ({
      end: "commit",
      value: "value",
      records: keys.filter((_, place) => places.includes(place)).map((key) => commitOf(key)),
    }),
    async left() {
      const committed = await business.committedRows();
      return rows.flatMap((row, place) => (committed.includes(row) ? [place] : []));
    },
  };
}

function batchCase(name: string, run: (batch: Batch, context: CaseContext) => Promise<void>): StoreCase {
  return {
    name: `batches: ${name}`,
    needs: withTransactions,
    async run(context) {
      const batch = batchOf(context);
      if (batch !== null) await run(batch, context);
    },
  };
}

export const batchCases: readonly StoreCase[] = [
  batchCase("the parts and their records commit together", async (batch, context) => {
    const outcome = await batch.run(async (open) => {
      assert.deepEqual(
        open.admissions.map((one) => [one?.reading.record, one?.exclusive]),
        batch.keys.map(() => [null, true]),
      );
      for (const place of [0, 1, 2]) await batch.write(open, place);
      return batch.commit(0, 1, 2);
    });
    assert.ok(outcome.kind === "committed");
    assert.deepEqual(await batch.left(), [0, 1, 2]);
    for (const key of batch.keys) {
      const record = await readRecord(context, key);
      assert.ok(record.state === "completed");
      assert.equal(outcome.expiresAt.get(record.id), record.expiresAt);
    }
  }),
  batchCase("a part that is undone takes its rows with it, and no others", async (batch, context) => {
    await batch.run(async (open) => {
      await batch.write(open, 0);
      const part = await batch.write(open, 1);
      await part.undo();
      await batch.write(open, 2);
      return batch.commit(0, 2);
    });
    assert.deepEqual(await batch.left(), [0, 2]);
    const [, undone = newKey()] = batch.keys;
    assert.equal((await context.other.read(undone)).record, null);
  }),
  batchCase("the `tx` of a part cannot be used after it", async (batch, context) => {
    const { business } = transactional(context);
    await batch.run(async (open) => {
      const part = await batch.write(open, 0);
      await assert.rejects(business.write(part.tx, batch.rows[1] ?? ""));
      await batch.write(open, 2);
      return batch.commit(0, 2);
    });
    assert.deepEqual(await batch.left(), [0, 2]);
  }),
  batchCase("a record that already exists undoes the whole batch", async (batch, context) => {
    const { support } = transactional(context);
    const [, taken = newKey()] = batch.keys;
    await support.run(requestFor(taken), async () => commitOf(taken));
    const outcome = await batch.run(async (open) => {
      assert.equal(open.admissions[1]?.reading.record?.state, "completed");
      for (const place of [0, 1]) await batch.write(open, place);
      return batch.commit(0, 1);
    });
    assert.equal(outcome.kind, "lost");
    assert.deepEqual(await batch.left(), []);
    const [free = newKey()] = batch.keys;
    assert.equal((await context.other.read(free)).record, null);
  }),
  batchCase("a batch that is rolled back leaves nothing, and its keys are free", async (batch, context) => {
    const { otherSupport } = transactional(context);
    await batch.run(async (open) => {
      await batch.write(open, 0);
      return { end: "rollback", value: "" };
    });
    assert.deepEqual(await batch.left(), []);
    for (const key of batch.keys) assert.equal(await isExclusive(otherSupport, key), true);
  }),
];
