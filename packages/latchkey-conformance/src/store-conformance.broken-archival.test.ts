/** The cases about archiving can fail: every one of them catches some of these mistakes. */
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

const whole = "archival: what is due is read whole, oldest first, at most so many, and stays";
const summaries = "archival: what is due has its summary byte for byte, where the store keeps summaries";
const only = "archival: only what `clean` would forget is due";
const waiting = "archival: a record whose effects are not delivered is not due, and does not go";
const without =
  "archival: cleaning without forgetting forgets nothing, and leaves answers that go with their key";
const named = "archival: what is named goes with its steps, once, and nothing else";
const lives = "archival: another life of the key stays, and so does what is due no more";

const mistakes: Readonly<Record<string, readonly [caughtBy: string, mistake: Mistake]>> = {
  "answers are left out": [
    whole,
    archival((sound) => ({
      due: async (limit) =>
        (await sound.due(limit)).map((record) =>
          record.state === "expired" ? record : { ...record, answer: null },
        ),
    })),
  ],
  "summaries are left out": [
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
  "what has expired is due before its key's time is over": [
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
  "undelivered effects are not looked at": [
    waiting,
    archival((sound, { rows }) => ({
      async forget(records) {
        for (const record of records) rows.remove(record);
        return records.length + (await sound.forget([]));
      },
    })),
  ],
  "cleaning forgets as ever": [
    without,
    archival((_, { inner }) => ({ clean: (limit) => inner.clean(limit) })),
  ],
  "everything that is due goes": [
    named,
    archival((sound) => ({
      forget: async () => sound.forget(await sound.due(1_000)),
    })),
  ],
  "the key goes, whichever life has it": [
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
