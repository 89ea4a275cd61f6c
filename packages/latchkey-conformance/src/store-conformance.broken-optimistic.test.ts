/**
 * The cases about transactions that open after their work has started can fail: each of them catches one of these mistakes.
 */
import { describe, expect, test } from "vitest";
import { type BrokenSupport, casesOf, failuresOf, type Mistake } from "../../../test/support/broken-store.ts";
import type { MemoryTransaction } from "../../latchkey/src/stores/memory/tables.ts";
import type { Admission, OptimisticTransaction } from "../../latchkey/src/stores/transactions.ts";

type RunOptimistic = NonNullable<BrokenSupport["runOptimistic"]>;
type Open = OptimisticTransaction<MemoryTransaction>;

interface Change {
  /** What the store does in place of asking for admission. */
  readonly admit?: (seen: Admission, asked: () => Promise<boolean>) => Promise<boolean>;
  readonly sees?: (seen: Admission) => Admission;
  readonly open?: (open: Open, ask: () => Promise<boolean>) => Open;
  readonly opensToCommit?: true;
}

function optimistic({ admit, sees = (seen) => seen, open: change, opensToCommit }: Change): Mistake {
  return {
    transactions({ support }) {
      const { runOptimistic: sound } = support;
      if (sound === undefined) throw new TypeError("the memory store has optimistic admission");
      const runOptimistic: RunOptimistic = (request, asked, work) => {
        let last: Admission | null = null;
        const ask = async () => last !== null && asked(last);
        return sound(
          request,
          async (seen) => {
            last = sees(seen);
            return admit?.(last, ask) ?? ask();
          },
          async (open) => {
            const ended = await work(change?.(open, ask) ?? open);
            if (opensToCommit && ended.end === "commit") await open.admitted();
            return ended;
          },
        );
      };
      return { runOptimistic };
    },
  };
}

const writingAtOnce: Mistake = {
  transactions({ support, tables }) {
    const { runOptimistic: sound } = support;
    if (sound === undefined) throw new TypeError("the memory store has optimistic admission");
    const runOptimistic: RunOptimistic = (request, admit, work) =>
      sound(request, admit, (open) =>
        work({
          ...open,
          tx: {
            rows: (table) => open.tx.rows(table),
            insert: async (table, row) => tables.add([{ table, row }]),
          },
        }),
      );
    return { runOptimistic };
  },
};

const mistakes: Readonly<Record<string, readonly [caughtBy: string, mistake: Mistake]>> = {
  "a first statement outside the transaction": [
    "early transactions: the first statement opens the transaction, which commits rows and record",
    writingAtOnce,
  ],
  "a refusal that is ignored": [
    "early transactions: statements of a run that is not admitted reject, even in parallel, and leave nothing",
    optimistic({
      admit: async (_, ask) => {
        await ask();
        return true;
      },
    }),
  ],
  "an error treated as admission": [
    "early transactions: an admission that throws admits nothing",
    optimistic({ admit: (_, ask) => ask().catch(() => true) }),
  ],
  "a commit that opens a transaction that was never opened": [
    "early transactions: a transaction that was neither opened nor admitted cannot be committed",
    optimistic({ opensToCommit: true }),
  ],
  "admission asked for each statement": [
    "early transactions: `admitted` opens the transaction without a statement, once",
    optimistic({
      open: (open, ask) => ({
        ...open,
        async admitted() {
          await open.admitted();
          return ask();
        },
      }),
    }),
  ],
  "every transaction alone with its key": [
    "early transactions: a second transaction of the key learns that it is not alone",
    optimistic({ sees: (seen) => ({ ...seen, exclusive: true }) }),
  ],
  "a revoke that does nothing": [
    "early transactions: a statement after `revoke` throws",
    optimistic({ open: (open) => ({ ...open, revoke() {} }) }),
  ],
};

describe("the suite catches", () => {
  const cases = (mistake: Mistake) =>
    casesOf(mistake).filter(([name]) => name.startsWith("early transactions:"));

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
