import { expect, test } from "vitest";
import type { TierResult } from "./harness/tier.ts";
import { isComplete, resumeOf, type TierEntry, withSitting } from "./ledger.ts";
import { parseOptions } from "./options.ts";
import { renderReport } from "./report.ts";

const source = { digest: "code-1", commit: null };
const facts = { date: "2026-11-22T10:00:00.000Z", minutes: 2, seed: "0x1" };

function result(count: number, resume: unknown, complete = false): TierResult {
  return {
    covered: [{ what: "schedules", bound: "two owners", count, of: 100, complete }],
    reached: { takeover: count },
    faults: { crash: 1 },
    versions: { postgres: "18.4" },
    notRun: [],
    notShown: ["power loss"],
    resume,
  };
}

test("sittings on the same code add up, and what is due is complete", () => {
  const first = withSitting(undefined, source, result(60, { at: 60 }), facts);
  expect(isComplete(first)).toBe(false);
  const second = withSitting(first, source, result(40, null), facts);
  expect(second.covered).toEqual([
    { what: "schedules", bound: "two owners", count: 100, of: 100, complete: true },
  ]);
  expect(second.reached).toEqual({ takeover: 100 });
  expect(second.faults).toEqual({ crash: 2 });
  expect(second.sittings).toHaveLength(2);
  expect(isComplete(second)).toBe(true);
});

test("a sitting goes on where the last one ended; a small one, and one schedule again, do not", () => {
  const before = withSitting(undefined, source, result(60, { at: 60 }), facts);
  const sitting = { volume: "full", only: null } as const;
  expect(resumeOf(before, source, sitting)).toEqual({ at: 60 });
  expect(resumeOf(before, { ...source, digest: "code-2" }, sitting)).toBeNull();
  expect(resumeOf(undefined, source, sitting)).toBeNull();
  expect(resumeOf(before, source, { ...sitting, volume: "small" })).toBeNull();
  expect(resumeOf(before, source, { ...sitting, only: "7" })).toBeNull();
});

test("on other code a tier starts anew", () => {
  const before = withSitting(undefined, source, result(60, { at: 60 }), facts);
  const other = withSitting(before, { digest: "code-2", commit: null }, result(5, null), facts);
  expect(other.covered[0]?.count).toBe(5);
  expect(other.sittings).toHaveLength(1);
});

test("the report names what was run, on which code, and what was not", () => {
  const entry: TierEntry = withSitting(undefined, source, result(60, { at: 60 }), facts);
  const parts = {
    ledger: { machine: "a machine", tiers: { P1: entry } },
    tiers: { P1: { title: "every schedule", about: "About it." }, P2: { title: "random", about: "Random." } },
    findings: [{ tier: "P1", what: "a fault", test: "a.test.ts" }],
  } as const;
  const page = renderReport({ ...parts, digestOf: () => "code-1" });
  expect(page).toContain("| P1 | every schedule | part of it, this code | 2 | 2026-11-22 |");
  expect(page).toContain("| schedules | two owners | 60 | 100 |");
  expect(page).toContain("| P2 | random | not run yet |");
  expect(page).toContain("- P1: power loss");
  expect(page).toContain("| P1 | a fault | `a.test.ts` |");
  expect(renderReport({ ...parts, digestOf: () => "code-2" })).toContain("Run on earlier code");
});

test("options of `npm run prove`", () => {
  expect(parseOptions(["--tier", "P2,P1", "--minutes", "0.5", "--seed", "0xff"])).toMatchObject({
    tiers: ["P1", "P2"],
    minutes: 0.5,
    volume: "full",
    seed: 255n,
  });
  expect(() => parseOptions(["--tier", "P9"])).toThrow(TypeError);
  expect(() => parseOptions(["--minutes", "0"])).toThrow(TypeError);
  expect(() => parseOptions(["--seed", "1; rm"])).toThrow(TypeError);
});
