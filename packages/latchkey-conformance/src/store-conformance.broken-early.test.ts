/** The cases about early settlements can fail: each of them catches some of these mistakes. */
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

const storedCase =
  "early: a settlement for a running life is stored as given, once, in order, and changes nothing";
const only =
  "early: stored only for a record that runs or may be resumed, and only in the version that was read";
const due = "early: unknown records with a stored settlement are due, and no settlement outlives its life";

const mistakes: Readonly<Record<string, readonly [caughtBy: string, mistake: Mistake]>> = {
  "a settlement for another life is stored": [
    only,
    early((sound, { rows }) => ({
      keep(key, guard, one) {
        const record = currentOf(rows, key);
        return sound.keep(key, record === null ? guard : guardOf(record), one);
      },
    })),
  ],
  "settlements are kept in memory and lost in a crash": [
    storedCase,
    early(() => ({ keep: async () => true })),
  ],
  "each repetition is stored again": [
    storedCase,
    early((sound) => ({
      keep: (key, guard, one) => sound.keep(key, guard, { ...one, note: { ...one.note, id: newId() } }),
    })),
  ],
  "returns true when the record has become unknown meanwhile": [
    only,
    early((sound) => ({ keep: async (...given) => (await sound.keep(...given)) || true })),
  ],
  "the last settlement comes first": [
    storedCase,
    early((sound) => ({ of: async (...given) => [...(await sound.of(...given))].reverse() })),
  ],
  "settlements are gone once the record is unknown": [
    storedCase,
    early((sound, { rows }) => ({
      of: async (key, id) => (currentOf(rows, key)?.state === "unknown" ? [] : sound.of(key, id)),
    })),
  ],
  "a new life has the settlements of the previous one": [
    storedCase,
    early((sound, { rows }) => ({
      of: async (key) => sound.of(key, currentOf(rows, key)?.id ?? ""),
    })),
  ],
  "no record is ever due": [due, early(() => ({ due: async () => [] }))],
  "the limit is ignored": [due, early((sound) => ({ due: () => sound.due(1_000) }))],
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
