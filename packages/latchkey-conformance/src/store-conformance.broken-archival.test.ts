/** The cases about archiving can fail: each of them catches some of these mistakes. */
import { AssertionError } from "node:assert/strict";
import { describe, expect, test } from "vitest";
import { casesOf, failuresOf, type Mistake, type Parts } from "../../../test/support/broken-store.ts";
import type { Archival } from "../../latchkey/src/stores/archival.ts";

function archival(make: (sound: Archival, parts: Parts) => Partial<Archival>): Mistake {
  return {
    store(parts) {
      const { archival: sound } = parts.inner;
      if (sound === undefined) throw new TypeError("the memory store can archive");
      return { archival: { ...sound, ...make(sound, parts) } };
    },
  };
}

const whole = "archival: due records are read complete, oldest first, at most `limit`, and stay";
const summaries = "archival: due records have their summaries byte for byte, if the store keeps summaries";
const only = "archival: only records that `clean` would forget are due";
const waiting = "archival: a record whose effects are not delivered is not due, and is not forgotten";
const without =
  "archival: cleaning without forgetting forgets nothing, and leaves answers whose retention ends with the key's";
const named = "archival: a named record goes with its steps, once, and nothing else goes";
const lives = "archival: another life of the key stays, and so does a record that is no longer due";

const mistakes: Readonly<Record<string, readonly [caughtBy: string, mistake: Mistake]>> = {
  "answers are omitted": [
    whole,
    archival((sound) => ({
      due: async (limit) =>
        (await sound.due(limit)).map((record) =>
          record.state === "expired" ? record : { ...record, answer: null },
        ),
    })),
  ],
  "summaries are omitted": [
    summaries,
    archival((sound) => ({
      due: async (limit) => (await sound.due(limit)).map((record) => ({ ...record, summary: null })),
    })),
  ],
  "the youngest come first": [
    whole,
    archival((sound) => ({ due: async (limit) => [...(await sound.due(100))].reverse().slice(0, limit) })),
  ],
  "reading removes": [
    whole,
    archival((sound) => ({
      async due(limit) {
        const due = await sound.due(limit);
        await sound.forget(due);
        return due;
      },
    })),
  ],
  "an expired record is due before its key is forgotten": [
    only,
    archival((sound, { rows, now }) => ({
      due: async (limit) => [
        ...(await sound.due(limit)),
        ...rows
          .all()
          .flatMap(({ record }) =>
            record.state === "completed" && now() >= record.expiresAt && now() < record.forgetAt
              ? [{ ...record, summary: null }]
              : [],
          ),
      ],
    })),
  ],
  "undelivered effects are ignored": [
    waiting,
    archival((sound, { rows }) => ({
      async forget(records) {
        for (const record of records) rows.remove(record);
        return records.length + (await sound.forget([]));
      },
    })),
  ],
  "cleaning still forgets": [without, archival((_, { inner }) => ({ clean: (limit) => inner.clean(limit) }))],
  "every due record is forgotten": [
    named,
    archival((sound) => ({
      forget: async () => sound.forget(await sound.due(1_000)),
    })),
  ],
  "the key is forgotten, whichever life has it": [
    lives,
    archival((sound, { rows }) => ({
      async forget(records) {
        const gone = await sound.forget(records);
        for (const record of records)
          if (rows.find(record)?.record.state === "in_progress") rows.remove(record);
        return gone;
      },
    })),
  ],
};

const archivalCases = (mistake: Mistake) => casesOf(mistake).filter(([name]) => name.startsWith("archival:"));

test.each(Object.entries(mistakes))("the suite catches: %s", async (_, [caughtBy, mistake]) => {
  const failures = await failuresOf(archivalCases(mistake));
  expect([...failures.keys()]).toContain(caughtBy);
  expect(failures.get(caughtBy)).toBeInstanceOf(AssertionError);
});

describe("every case", () => {
  test("passes on the sound store, and catches some of the mistakes", async () => {
    expect([...(await failuresOf(archivalCases({}))).keys()]).toEqual([]);
    const caught = new Set(Object.values(mistakes).map(([caughtBy]) => caughtBy));
    expect(
      archivalCases({})
        .map(([name]) => name)
        .filter((name) => !caught.has(name)),
    ).toEqual([]);
  });
});
