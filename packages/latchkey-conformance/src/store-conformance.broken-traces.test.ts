/** The cases about traces can fail: each of them catches some of these mistakes. */
import { AssertionError } from "node:assert/strict";
import { describe, expect, test } from "vitest";
import { casesOf, failuresOf, type Mistake, type Parts } from "../../../test/support/broken-store.ts";
import type { NewLife } from "../../latchkey/src/stores/life.ts";
import { MemoryEffects } from "../../latchkey/src/stores/memory/effects.ts";
import { MemoryRows } from "../../latchkey/src/stores/memory/rows.ts";

const begun = "traces: a life has the trace with which it began, or none";
const goesOn = "traces: a life that continues keeps it until its end, and until its answer's expiry";
const next = "traces: a new life of the key has its own trace, or none";
const lost = "traces: a life whose transaction was lost keeps the trace with which it began";
const transaction = "traces: a transaction writes it, and a retried life keeps the first";
const effects = "traces: an effect has the trace with which it was enqueued, or none, in every reading";

const noTrace = <T extends { readonly trace?: string }>({ trace: _, ...rest }: T) => rest;

/** Changes lives that these calls begin. */
function beginning(change: (life: NewLife, parts: Parts) => NewLife): Mistake {
  return {
    store: (parts) => ({
      create: (life, replaces, terms) => parts.inner.create(change(life, parts), replaces, terms),
      accept: (life, replaces, afterMs) => parts.inner.accept(change(life, parts), replaces, afterMs),
    }),
  };
}

const mistakes: Readonly<Record<string, readonly [caughtBy: string, mistake: Mistake]>> = {
  "nothing is kept": [begun, beginning((life) => noTrace(life) as NewLife)],
  "it is removed with the answer": [
    goesOn,
    {
      rows: () => {
        const rows = new MemoryRows();
        const put = rows.put.bind(rows);
        rows.put = (record, change) =>
          record.state === "expired" ? put(noTrace(record) as typeof record, change) : put(record, change);
        return rows;
      },
    },
  ],
  "the first one of a key stays for ever": [
    next,
    (() => {
      const first = new Map<string, string>();
      return beginning((life) => {
        const kept = first.get(life.key) ?? life.trace;
        if (kept === undefined) return life;
        first.set(life.key, kept);
        return { ...life, trace: kept };
      });
    })(),
  ],
  "a lost transaction writes its own": [
    lost,
    {
      store: ({ inner, rows }) => ({
        async recordLostTransaction(life, replaces, errorCode) {
          const record = await inner.recordLostTransaction(life, replaces, errorCode);
          const row = rows.find(life);
          if (record === null || row === null || life.trace === undefined) return record;
          return rows.put({ ...record, trace: life.trace });
        },
      }),
    },
  ],
  "transactions store none": [
    transaction,
    {
      transactions: ({ support }) => ({
        run: (request, work) =>
          support.run(request, async (open) => {
            const done = await work(open);
            return done.end === "commit" ? { ...done, life: noTrace(done.life) as NewLife } : done;
          }),
      }),
    },
  ],
  "effects have none": [
    effects,
    {
      effects: () =>
        new MemoryEffects((effect) => ({
          ...(noTrace(effect) as typeof effect),
          fence: { ...effect.fence },
        })),
    },
  ],
};

const traceCases = (mistake: Mistake) => casesOf(mistake).filter(([name]) => name.startsWith("traces:"));

test.each(Object.entries(mistakes))("the suite catches: %s", async (_, [caughtBy, mistake]) => {
  const failures = await failuresOf(traceCases(mistake));
  expect([...failures.keys()]).toContain(caughtBy);
  expect(failures.get(caughtBy)).toBeInstanceOf(AssertionError);
});

describe("every case", () => {
  test("passes on the sound store, and catches some of the mistakes", async () => {
    expect([...(await failuresOf(traceCases({}))).keys()]).toEqual([]);
    const caught = new Set(Object.values(mistakes).map(([caughtBy]) => caughtBy));
    const missed = traceCases({}).filter(([name]) => !caught.has(name));
    expect(missed.map(([name]) => name)).toEqual([]);
  });
});
