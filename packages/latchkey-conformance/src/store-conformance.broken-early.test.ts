/** The cases about early settlements can fail: every one of them catches some of these mistakes. */
import { AssertionError } from "node:assert/strict";
import { describe, expect, test } from "vitest";
import {
  casesOf,
  currentOf,
  failuresOf,
  type Mistake,
  type Parts,
} from "../../../test/support/broken-store.ts";
import { guardOf } from "../../latchkey/src/engine/record.ts";
import type { EarlySettlements } from "../../latchkey/src/stores/early.ts";
import { newId } from "./store-conformance/arrange.ts";

function early(make: (sound: EarlySettlements, parts: Parts) => Partial<EarlySettlements>): Mistake {
  return {
    store(parts) {
      const { early: sound } = parts.inner;
      if (sound === undefined) throw new TypeError("the memory store keeps early settlements");
      return { early: { ...sound, ...make(sound, parts) } };
    },
  };
}

const said =
  "early: what is said of a running life is kept as it was said, once, in its order, and changes nothing";
const only =
  "early: only a record that runs or may go on keeps anything, and only in the version that was read";
const due = "early: unknown records for which something is kept are due, and what is kept outlives no life";

const mistakes: Readonly<Record<string, readonly [caughtBy: string, mistake: Mistake]>> = {
  "what was said of another life is kept": [
    only,
    early((sound, { rows }) => ({
      keep(key, guard, one) {
        const record = currentOf(rows, key);
        return sound.keep(key, record === null ? guard : guardOf(record), one);
      },
    })),
  ],
  "it is kept in memory that a crash takes": [said, early(() => ({ keep: async () => true }))],
  "it is kept once for each repetition": [
    said,
    early((sound) => ({
      keep: (key, guard, one) => sound.keep(key, guard, { ...one, note: { ...one.note, id: newId() } }),
    })),
  ],
  "it is answered as kept when the record has become unknown meanwhile": [
    only,
    early((sound) => ({ keep: async (...given) => (await sound.keep(...given)) || true })),
  ],
  "the last word comes first": [
    said,
    early((sound) => ({ of: async (...given) => [...(await sound.of(...given))].reverse() })),
  ],
  "it is gone once the record is unknown": [
    said,
    early((sound, { rows }) => ({
      of: async (key, id) => (currentOf(rows, key)?.state === "unknown" ? [] : sound.of(key, id)),
    })),
  ],
  "a new life finds what was said of the one before": [
    said,
    early((sound, { rows }) => ({
      of: async (key) => sound.of(key, currentOf(rows, key)?.id ?? ""),
    })),
  ],
  "nothing is due": [due, early(() => ({ due: async () => [] }))],
  "the limit is not heeded": [due, early((sound) => ({ due: () => sound.due(1_000) }))],
};

const earlyCases = (mistake: Mistake) => casesOf(mistake).filter(([name]) => name.startsWith("early:"));

test.each(Object.entries(mistakes))("the suite catches: %s", async (_, [caughtBy, mistake]) => {
  const failures = await failuresOf(earlyCases(mistake));
  expect([...failures.keys()]).toContain(caughtBy);
  expect(failures.get(caughtBy)).toBeInstanceOf(AssertionError);
});

describe("every case", () => {
  test("passes on the sound store, and catches some of the mistakes", async () => {
    expect([...(await failuresOf(earlyCases({}))).keys()]).toEqual([]);
    const caught = new Set(Object.values(mistakes).map(([caughtBy]) => caughtBy));
    expect(
      earlyCases({})
        .map(([name]) => name)
        .filter((name) => !caught.has(name)),
    ).toEqual([]);
  });
});
