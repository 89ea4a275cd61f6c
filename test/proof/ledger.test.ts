import { expect, test } from "vitest";
import { descriptions } from "./descriptions.ts";
import type { TierResult } from "./harness/tier.ts";
import { entryOn, isComplete, resumeOf, type Source, type TierEntry, withSitting } from "./ledger.ts";
import { parseOptions } from "./options.ts";
import { renderReport } from "./report.ts";
import type { Today } from "./report-rows.ts";

const code = { library: "library-1", harness: "harness-1" };
const source: Source = { code, commit: "aaaaaaaaaaaa" };
const later: Source = { code: { ...code, library: "library-2" }, commit: "bbbbbbbbbbbb" };
const otherJudge: Source = { code: { ...code, harness: "harness-2" }, commit: "cccccccccccc" };
const facts = { date: "2026-11-22T10:00:00.000Z", minutes: 2, seed: "0x1" };

function result(count: number, resume: unknown, complete = false): TierResult {
  return {
    covered: [{ what: "schedules", bound: "two owners", count, of: 100, complete }],
    reached: { takeover: count },
    faults: { crash: 1 },
    versions: { postgres: "18.4" },
    notRun: [],
    resume,
  };
}

function sat(entries: readonly TierEntry[], on: Source, count: number, resume: unknown = null, anew = false) {
  return withSitting(entries, { source: on, result: result(count, resume), facts, anew });
}

test("sittings on the same code add up, each row with the commit at which it was reached", () => {
  const first = sat([], source, 60, { at: 60 });
  expect(first.every(isComplete)).toBe(false);
  const [second, ...more] = sat(first, { ...source, commit: "eeeeeeeeeeee" }, 40);
  expect(more).toEqual([]);
  expect(second).toMatchObject({ reached: { takeover: 100 }, faults: { crash: 2 } });
  expect(second?.covered).toEqual([
    { what: "schedules", bound: "two owners", count: 100, of: 100, complete: true, commit: "eeeeeeeeeeee" },
  ]);
  expect(second?.sittings).toHaveLength(2);
  expect(second !== undefined && isComplete(second)).toBe(true);
});

test("a sitting goes on only when both digests are equal; a small one, one schedule again, and one anew do not", () => {
  const before = sat([], source, 60, { at: 60 });
  const sitting = { volume: "full", only: null, anew: false } as const;
  expect(resumeOf(before, source, sitting)).toEqual({ at: 60 });
  expect(resumeOf(before, later, sitting)).toBeNull();
  expect(resumeOf(before, otherJudge, sitting)).toBeNull();
  expect(resumeOf([], source, sitting)).toBeNull();
  expect(resumeOf(before, source, { ...sitting, volume: "small" })).toBeNull();
  expect(resumeOf(before, source, { ...sitting, only: "7" })).toBeNull();
  expect(resumeOf(before, source, { ...sitting, anew: true })).toBeNull();
});

test("on other code, or under another judge, a tier begins anew, and nothing is discarded", () => {
  const before = sat([], source, 60, { at: 60 });
  const after = sat(sat(before, later, 5), otherJudge, 7);
  expect(after.map(({ covered }) => covered[0]?.count)).toEqual([60, 5, 7]);
  expect(after.map(({ source: { commit } }) => commit?.slice(0, 1))).toEqual(["a", "b", "c"]);
  // A change that was taken back has its evidence again, and goes on.
  expect(resumeOf(after, source, { volume: "full", only: null, anew: false })).toEqual({ at: 60 });
  expect(sat(after, source, 1).map(({ covered }) => covered[0]?.count)).toEqual([5, 7, 61]);
  expect(sat(after, source, 1, null, true).map(({ covered }) => covered[0]?.count)).toEqual([60, 5, 7, 1]);
});

test("evidence whose code is not known is nobody's", () => {
  const before = sat([], { code: null, commit: "dddddddddddd" }, 60);
  expect(entryOn(before, null)).toBeUndefined();
  expect(sat(before, { code: null, commit: null }, 1)).toHaveLength(2);
});

const unknown: Today = { code, changesSince: () => null };

function pageWith(entries: readonly TierEntry[], today: Today = unknown): string {
  return renderReport({
    ledger: { machine: "a machine", tiers: { P2: entries } },
    descriptions,
    findings: [{ tier: "P1", what: "a fault", test: "a.test.ts" }],
    today: () => today,
  });
}

test("the page says what today's code has shown, and at which commit", () => {
  const page = pageWith(sat([], source, 60, { at: 60 }));
  expect(page).toContain("| schedules | two owners | 60 of 100, at `aaaaaaaaaa` |  |");
  expect(page).toContain("| 0 of 1 rows whole | none |");
  expect(page).toContain("- P2: Schedules that were not drawn.");
  expect(page).toContain("| P1 | a fault | `a.test.ts` |");
  expect(pageWith(sat([], source, 100))).toContain("| **whole** |  |");
});

test("the page says of earlier evidence how far today's code is from it, and never that it is today's", () => {
  const entries = sat([], source, 100);
  const changed = { added: 12, removed: 3 };
  const otherLibrary = pageWith(entries, { code: { ...code, library: "x" }, changesSince: () => changed });
  expect(otherLibrary).toContain("| not yet | 100 of 100, at `aaaaaaaaaa` (+12 −3 lines) |");
  const none = { added: 0, removed: 0 };
  const otherHarness = pageWith(entries, { code: { ...code, harness: "x" }, changesSince: () => none });
  expect(otherHarness).toContain("| not yet | 100 of 100, at `aaaaaaaaaa` (+0 −0 lines, harness changed) |");
  const lost = pageWith(sat([], { code: null, commit: "dddddddddddd" }, 100));
  expect(lost).toContain("| not yet | 100 of 100, at `dddddddddd` (no longer in the history");
  for (const page of [otherLibrary, otherHarness, lost]) expect(page).not.toContain("| **whole** |");
});

test("today's volume stands beside what earlier code has shown, as long as it is not whole", () => {
  const entries = sat(sat([], source, 100), later, 5, { at: 5 });
  const today: Today = {
    code: { ...code, library: "library-2" },
    changesSince: () => ({ added: 1, removed: 1 }),
  };
  expect(pageWith(entries, today)).toContain(
    "| 5 of 100, at `bbbbbbbbbb` | 100 of 100, at `aaaaaaaaaa` (+1 −1 lines) |",
  );
});

test("the page names what was never reached, and does not count it", () => {
  const [entry] = sat([], source, 60);
  if (entry === undefined) throw new Error("there is no entry");
  const page = pageWith([{ ...entry, reached: { often: 7, once: 1, never: 0, "not at all": 0 } }]);
  expect(page).toContain('- Reached: 8 in 2 situations; the rarest ("once") 1 times.');
  expect(page).toContain('- Not reached: "never", "not at all".');
  const nothing = pageWith([{ ...entry, reached: { never: 0 } }]);
  expect(nothing).not.toContain("- Reached");
  expect(nothing).toContain('- Not reached: "never".');
  expect(pageWith([{ ...entry, reached: { once: 1 } }])).not.toContain("Not reached");
});

test("options of `npm run prove`", () => {
  expect(parseOptions(["--tier", "P2,P1", "--minutes", "0.5", "--seed", "0xff"])).toMatchObject({
    tiers: ["P1", "P2"],
    minutes: 0.5,
    volume: "full",
    seed: 255n,
  });
  expect(parseOptions(["--digests"])).toMatchObject({ digests: true, report: false });
  expect(() => parseOptions(["--tier", "P9"])).toThrow(TypeError);
  expect(() => parseOptions(["--minutes", "0"])).toThrow(TypeError);
  expect(() => parseOptions(["--seed", "1; rm"])).toThrow(TypeError);
});
