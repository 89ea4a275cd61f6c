/** The cases about facts can fail: every one of them catches some of these mistakes. */
import { AssertionError } from "node:assert/strict";
import { describe, expect, test } from "vitest";
import { casesOf, failuresOf, type Mistake, type Parts } from "../../../test/support/broken-store.ts";
import type { FactGroup, FactSupport, KeptFacts } from "../../latchkey/src/stores/facts.ts";

const name = (text: string) => `facts: ${text}`;
const said = name("they come back as they were said, by the store's time, each kind alone");
const bounds = name("the first ten and the last twenty stay, with a count of all");
const keys = name("many keys at once, each its own, also where names run into each other");
const races = name("two that keep at once lose none");
const missing = name("of a key without a record, or of another life, none is kept");
const lives = name("a new life has its own alone");
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

/** Kept by these names, beside the records. */
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
  "all at the time of their keeping": [
    said,
    keeping((group) => ({ ...group, facts: group.facts.map((one) => ({ ...one, agoMs: 0 })) })),
  ],
  "no trace": [
    said,
    keeping((group) => ({ ...group, facts: group.facts.map((one) => ({ ...one, traceId: null })) })),
  ],
  "one kind for all": [said, keeping((group) => ({ ...group, kind: "repeat" }))],
  "the last thirty alone": [
    bounds,
    facts((sound) => ({
      async of(key, id) {
        const kept = await sound.of(key, id);
        return kept.map((one) => ({ ...one, facts: one.count > 30 ? one.facts.slice(-20) : one.facts }));
      },
    })),
  ],
  "a count of what is kept": [bounds, reading((kept) => ({ ...kept, count: kept.facts.length }))],
  "names put together": [keys, byName(({ key: { tenant, scope, key } }) => `${tenant}${scope}${key}`)],
  "the first group alone": [keys, facts((sound) => ({ keep: (groups) => sound.keep(groups.slice(0, 1)) }))],
  "two that keep at once are one": [
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
  "kept for a record that is to come": [
    missing,
    byName(({ key: { tenant, scope, key } }) => JSON.stringify([tenant, scope, key])),
  ],
  "of whatever life": [missing, keeping((group) => ({ ...group, recordId: null }))],
  "the life before goes on": [
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
  "they stay when the record goes": [
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
