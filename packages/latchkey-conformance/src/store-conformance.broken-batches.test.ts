/** The cases about batches can fail: each of them catches one of these mistakes. */
import { describe, expect, test } from "vitest";
import { type BrokenSupport, casesOf, failuresOf, type Mistake } from "../../../test/support/broken-store.ts";
import type { MemoryTransaction } from "../../latchkey/src/stores/memory/tables.ts";
import type { BatchedRecord, TransactionPart } from "../../latchkey/src/stores/transactions.ts";

type RunBatch = NonNullable<BrokenSupport["runBatch"]>;
type Parts = Parameters<NonNullable<Mistake["transactions"]>>[0];

interface Change {
  readonly part?: (
    part: TransactionPart<MemoryTransaction>,
    parts: Parts,
  ) => TransactionPart<MemoryTransaction>;
  readonly records?: (records: readonly BatchedRecord[], parts: Parts) => readonly BatchedRecord[];
}

function batch({ part: change, records = (all) => all }: Change): Mistake {
  return {
    transactions(parts) {
      const { runBatch: sound } = parts.support;
      if (sound === undefined) throw new TypeError("the memory store has batches");
      const runBatch: RunBatch = (request, work) =>
        sound(request, async (open) => {
          const part = () => change?.(open.part(), parts) ?? open.part();
          const ended = await work({ ...open, part });
          return ended.end === "commit" ? { ...ended, records: records(ended.records, parts) } : ended;
        });
      return { runBatch };
    },
  };
}

const mistakes: Readonly<Record<string, readonly [caughtBy: string, mistake: Mistake]>> = {
  "a record that is omitted": [
    "batches: the parts and their records commit together",
    batch({ records: (all) => all.slice(1) }),
  ],
  "an undo that does nothing": [
    "batches: a part that is undone takes its rows with it, and no others",
    batch({ part: (part) => ({ ...part, undo: async () => {} }) }),
  ],
  "a revoke that does nothing": [
    "batches: the `tx` of a part cannot be used after it",
    batch({ part: (part) => ({ ...part, revoke() {} }) }),
  ],
  "an existing record that is ignored": [
    "batches: a record that already exists undoes the whole batch",
    batch({ records: (all, { rows }) => all.filter(({ life }) => rows.record(life) === null) }),
  ],
  "writes outside the transaction": [
    "batches: a batch that is rolled back leaves nothing, and its keys are free",
    batch({
      part: (part, { tables }) => ({
        ...part,
        tx: { ...part.tx, insert: async (table, row) => tables.add([{ table, row }]) },
      }),
    }),
  ],
};

describe("the suite catches", () => {
  const cases = (mistake: Mistake) => casesOf(mistake).filter(([name]) => name.startsWith("batches:"));

  test.each(Object.entries(mistakes))("%s", async (_, [caughtBy, mistake]) => {
    expect([...(await failuresOf(cases(mistake))).keys()]).toContain(caughtBy);
  });

  test("each of its cases is needed by one of them", () => {
    const names = cases({}).map(([name]) => name);
    expect(Object.values(mistakes).map(([caughtBy]) => caughtBy)).toEqual(names);
  });

  test("no mistake in the sound store", async () => {
    expect([...(await failuresOf(cases({}))).keys()]).toEqual([]);
  });
});
