/** The cases about summaries can fail: each of them catches some of these mistakes. */
import { AssertionError } from "node:assert/strict";
import { describe, expect, test } from "vitest";
import {
  casesOf,
  currentOf,
  failuresOf,
  type Mistake,
  type Parts,
} from "../../../test/support/broken-store.ts";
import type { Summaries } from "../../latchkey/src/stores/life.ts";
import { keyText } from "../../latchkey/src/stores/memory/rows.ts";

function summaries(make: (sound: Summaries, parts: Parts) => Partial<Summaries>): Mistake {
  return {
    store(parts) {
      const { summaries: sound } = parts.inner;
      if (sound === undefined) throw new TypeError("the memory store keeps summaries");
      return { summaries: { ...sound, ...make(sound, parts) } };
    },
  };
}

const bytes = "summaries: stored byte for byte from the first write on, and returned for that life only";
const goesOn = "summaries: a life that continues keeps it until its end, and until its answer's expiry";
const next = "summaries: a new life of the key has its own summary, or none";
const transaction = "summaries: a transaction writes it with its record, and a retried life keeps the first";

const mistakes: Readonly<Record<string, readonly [caughtBy: string, mistake: Mistake]>> = {
  "it passes through text": [
    bytes,
    summaries((sound) => ({
      async of(key, id) {
        const found = await sound.of(key, id);
        return found && new TextEncoder().encode(new TextDecoder().decode(found));
      },
    })),
  ],
  "returned for any life of the key": [
    bytes,
    summaries((sound, { rows }) => ({ of: (key) => sound.of(key, currentOf(rows, key)?.id ?? "") })),
  ],
  "removed with the answer": [
    goesOn,
    summaries((sound, { rows }) => ({
      of: async (key, id) => (currentOf(rows, key)?.state === "expired" ? null : sound.of(key, id)),
    })),
  ],
  "the first one of a key stays for ever": [
    next,
    {
      store({ inner }) {
        const first = new Map<string, Uint8Array>();
        return {
          create(life, replaces, terms) {
            const { summary = first.get(keyText(life)), ...rest } = life;
            const kept = first.get(keyText(life)) ?? summary;
            if (kept !== undefined) first.set(keyText(life), kept);
            return inner.create({ ...rest, ...(kept !== undefined && { summary: kept }) }, replaces, terms);
          },
        };
      },
    },
  ],
  "transactions store none": [
    transaction,
    {
      transactions: ({ support }) => ({
        run: (request, work) =>
          support.run(request, async (open) => {
            const done = await work(open);
            if (done.end !== "commit") return done;
            const { summary: _, ...life } = done.life;
            return { ...done, life };
          }),
      }),
    },
  ],
};

const summaryCases = (mistake: Mistake) => casesOf(mistake).filter(([name]) => name.startsWith("summaries:"));

test.each(Object.entries(mistakes))("the suite catches: %s", async (_, [caughtBy, mistake]) => {
  const failures = await failuresOf(summaryCases(mistake));
  expect([...failures.keys()]).toContain(caughtBy);
  expect(failures.get(caughtBy)).toBeInstanceOf(AssertionError);
});

describe("every case", () => {
  test("passes on the sound store, and catches some of the mistakes", async () => {
    expect([...(await failuresOf(summaryCases({}))).keys()]).toEqual([]);
    const caught = new Set(Object.values(mistakes).map(([caughtBy]) => caughtBy));
    expect(
      summaryCases({})
        .map(([name]) => name)
        .filter((name) => !caught.has(name)),
    ).toEqual([]);
  });
});
