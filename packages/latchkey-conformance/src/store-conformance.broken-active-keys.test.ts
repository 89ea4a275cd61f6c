/** The cases about counting keys can fail: each of them catches some of these mistakes. */
import { AssertionError } from "node:assert/strict";
import { describe, expect, test } from "vitest";
import { casesOf, failuresOf, type Mistake, type Parts } from "../../../test/support/broken-store.ts";
import type { ActiveKeys } from "../../latchkey/src/stores/active-keys.ts";
import type { Store } from "../../latchkey/src/stores/store.ts";

type Count = NonNullable<Store["countActiveKeys"]>;

function counting(make: (sound: Count, parts: Parts) => Count): Mistake {
  return {
    store(parts) {
      const { countActiveKeys } = parts.inner;
      if (countActiveKeys === undefined) throw new TypeError("the memory store counts");
      return { countActiveKeys: make(countActiveKeys, parts) };
    },
  };
}

/** Changes each answer. */
const saying = (change: (one: ActiveKeys) => Partial<ActiveKeys>): Mistake =>
  counting(
    (sound) => async (tenants, max) => (await sound(tenants, max)).map((one) => ({ ...one, ...change(one) })),
  );

const every = "active keys: records of every state count, and only those of the tenant";
const limit = "active keys: it counts up to the limit";
const due = "active keys: at the limit, records that are due to be forgotten do not count";
const room = "active keys: there is room once the first record is forgotten, and not before";
const stays = "active keys: records that do not end on their own make no room";

const mistakes: Readonly<Record<string, readonly [caughtBy: string, mistake: Mistake]>> = {
  "tenants whose names start alike are counted as one": [
    every,
    counting(
      (_, { rows }) =>
        async (tenants, max) =>
          tenants.map((tenant) => {
            const own = rows.all().filter(({ record }) => record.tenant.startsWith(tenant));
            return { tenant, count: Math.min(max, own.length), roomAfterMs: null };
          }),
    ),
  ],
  "only finished records count": [
    every,
    counting(
      (_, { rows }) =>
        async (tenants, max) =>
          tenants.map((tenant) => {
            const own = rows.all().filter(({ record }) => record.tenant === tenant && "forgetAt" in record);
            return { tenant, count: Math.min(max, own.length), roomAfterMs: null };
          }),
    ),
  ],
  "it counts one more than the limit": [
    limit,
    counting((sound) => (tenants, max) => sound(tenants, max + 1)),
  ],
  "it stops before the limit": [limit, saying(({ count }) => ({ count: Math.max(0, count - 1) }))],
  "records that the cleaner has not removed yet count": [
    due,
    counting(
      (_, { rows }) =>
        async (tenants, max) =>
          tenants.map((tenant) => {
            const own = rows.all().filter(({ record }) => record.tenant === tenant);
            return { tenant, count: Math.min(max, own.length), roomAfterMs: null };
          }),
    ),
  ],
  "the last record to be forgotten makes room": [
    room,
    saying(({ roomAfterMs }) => ({ roomAfterMs: roomAfterMs && roomAfterMs * 2 })),
  ],
  "there is always room at once": [stays, saying(() => ({ roomAfterMs: 0 }))],
};

const countCases = (mistake: Mistake) => casesOf(mistake).filter(([name]) => name.startsWith("active keys:"));

test.each(Object.entries(mistakes))("the suite catches: %s", async (_, [caughtBy, mistake]) => {
  const failures = await failuresOf(countCases(mistake));
  expect([...failures.keys()]).toContain(caughtBy);
  expect(failures.get(caughtBy)).toBeInstanceOf(AssertionError);
});

describe("every case", () => {
  test("passes on the sound store, and catches some of the mistakes", async () => {
    expect([...(await failuresOf(countCases({}))).keys()]).toEqual([]);
    const caught = new Set(Object.values(mistakes).map(([caughtBy]) => caughtBy));
    const missed = countCases({}).filter(([name]) => !caught.has(name));
    expect(missed.map(([name]) => name)).toEqual([]);
  });
});
