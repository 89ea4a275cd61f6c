/** The cases about facts can fail: each of them catches some of these mistakes. */
import { AssertionError } from "node:assert/strict";
import { describe, expect, test } from "vitest";
import { casesOf, failuresOf, type Mistake, type Parts } from "../../../test/support/broken-store.ts";
import type { FactGroup, FactSupport, KeptFacts } from "../../latchkey/src/stores/facts.ts";

const name = (text: string) => `facts: ${text}`;
const storedCase = name("they come back as given, with the store's time, separately for each kind");
const bounds = name("the first ten and the last twenty stay, with a count of all");
const keys = name("many keys at once keep their own, even if their names could be confused");
const races = name("two that are stored at once are both kept");
const missing = name("none is kept for a key without a record, or for another life");
const lives = name("a new life has only its own");
const going = name("they change nothing of the record, and go with it");

function facts(make: (sound: FactSupport, parts: Parts) => Partial<FactSupport>): Mistake {
  return {
    store(parts) {
      const { facts: sound } = parts.inner;
      if (sound === undefined) throw new TypeError("the memory store keeps facts");
      return { facts: { ...sound, ...make(sound, parts) } };
    },
  };
}

const keeping = (change: (group: FactGroup) => FactGroup) =>
  facts((sound) => ({ keep: (groups) => sound.keep(groups.map(change)) }));
const reading = (change: (kept: KeptFacts) => KeptFacts) =>
  facts((sound) => ({ of: async (key, id) => (await sound.of(key, id)).map(change) }));

/** Facts stored under these names, next to the records. */
function byName(nameOf: (group: Pick<FactGroup, "key" | "recordId">) => string): Mistake {
  return facts(() => {
    const all = new Map<string, KeptFacts[]>();
    return {
      async keep(groups) {
        for (const { kind, count, facts: given, ...of } of groups) {
          const kept = all.get(nameOf(of)) ?? [];
          const at = Date.now();
          all.set(nameOf(of), [...kept, { kind, count, facts: given.map((one) => ({ ...one, at })) }]);
        }
      },
      of: async (key, recordId) => all.get(nameOf({ key, recordId })) ?? [],
    };
  });
}

const mistakes: Readonly<Record<string, readonly [caughtBy: string, mistake: Mistake]>> = {
  "all with the time at which they were stored": [
    storedCase,
    keeping((group) => ({ ...group, facts: group.facts.map((one) => ({ ...one, agoMs: 0 })) })),
  ],
  "no trace": [
    storedCase,
    keeping((group) => ({ ...group, facts: group.facts.map((one) => ({ ...one, traceId: null })) })),
  ],
  "all kinds stored as one": [storedCase, keeping((group) => ({ ...group, kind: "repeat" }))],
  "only the last thirty": [
    bounds,
    facts((sound) => ({
      async of(key, id) {
        const kept = await sound.of(key, id);
        return kept.map((one) => ({ ...one, facts: one.count > 30 ? one.facts.slice(-20) : one.facts }));
      },
    })),
  ],
  "a count of the stored facts only": [bounds, reading((kept) => ({ ...kept, count: kept.facts.length }))],
  "names joined without a separator": [
    keys,
    byName(({ key: { tenant, scope, key } }) => `${tenant}${scope}${key}`),
  ],
  "only the first group": [keys, facts((sound) => ({ keep: (groups) => sound.keep(groups.slice(0, 1)) }))],
  "two that are stored at once become one": [
    races,
    facts((sound) => {
      let round: Promise<void> | null = null;
      return {
        keep(groups) {
          round ??= sound.keep(groups).finally(() => {
            round = null;
          });
          return round;
        },
      };
    }),
  ],
  "stored for a record that does not exist yet": [
    missing,
    byName(({ key: { tenant, scope, key } }) => JSON.stringify([tenant, scope, key])),
  ],
  "stored for any life": [missing, keeping((group) => ({ ...group, recordId: null }))],
  "facts of the previous life continue": [
    lives,
    facts((sound) => {
      const first = new Map<string, string>();
      return {
        async of({ tenant, scope, key }, id) {
          const known = first.get(key) ?? id;
          first.set(key, known);
          const own = await sound.of({ tenant, scope, key }, id);
          return own.length === 0 && known !== id ? [{ kind: "repeat", count: 3, facts: [] }] : own;
        },
      };
    }),
  ],
  "facts stay when the record goes": [
    going,
    facts((sound) => {
      const seen = new Map<string, readonly KeptFacts[]>();
      return {
        async of(key, id) {
          const kept = await sound.of(key, id);
          if (kept.length > 0) seen.set(id, kept);
          return seen.get(id) ?? [];
        },
      };
    }),
  ],
};

const factCases = (mistake: Mistake) => casesOf(mistake).filter(([one]) => one.startsWith("facts:"));

test.each(Object.entries(mistakes))("the suite catches: %s", async (_, [caughtBy, mistake]) => {
  const failures = await failuresOf(factCases(mistake));
  expect([...failures.keys()]).toContain(caughtBy);
  expect(failures.get(caughtBy)).toBeInstanceOf(AssertionError);
});

describe("every case", () => {
  test("passes on the sound store, and catches some of the mistakes", async () => {
    expect([...(await failuresOf(factCases({}))).keys()]).toEqual([]);
    const caught = new Set(Object.values(mistakes).map(([caughtBy]) => caughtBy));
    expect(
      factCases({})
        .map(([one]) => one)
        .filter((one) => !caught.has(one)),
    ).toEqual([]);
  });
});
