/** A smaller bound of each configuration, planted mistakes that it finds, and the reductions against none at all. */
import { describe, expect, test } from "vitest";
import { plants } from "../harness/store-plants.ts";
import { ProofFailure } from "../harness/tier.ts";
import type { Bound } from "./bound.ts";
import { type Configuration, configurations } from "./configurations.ts";
import { Explorer } from "./explore.ts";
import { exploreAll } from "./plain.ts";
import { required } from "./required.ts";
import { proofFailure, tier } from "./tier.ts";
import { unitsOf } from "./units.ts";
import { configurationNamed, type Failure, runOnly, runUnit, type Unit, unitName } from "./work.ts";

/** Seconds on an idle machine; others may be using it too. */
const timeout = 240_000;

test("every schedule inside the small bounds is right, and what must be reached is", {
  timeout,
}, async () => {
  const say = (line: string) => void process.stdout.write(`P1: ${line}\n`);
  const untilMs = Number.POSITIVE_INFINITY;
  const result = await tier.run({ volume: "small", untilMs, seed: 0n, resume: null, say });
  expect(result.covered.every(({ complete, count }) => complete && count > 100)).toBe(true);
  expect(result.resume).toBeNull();
});

test("a sitting goes on where the last one ended", { timeout }, async () => {
  const sitting = { volume: "small", seed: 0n, say: () => {} } as const;
  const rest = (one: Unit) => one.configuration === "transaction-unlocked";
  const done = unitsOf("small")
    .filter((unit) => !rest(unit))
    .map(unitName);
  const before = { done, tooLarge: [], reached: Object.fromEntries(required.map((what) => [what, 1])) };
  const late = await tier.run({ ...sitting, resume: before, untilMs: 0 });
  expect(late.resume, "nothing is begun after its time").toEqual(before);
  expect(late.covered.every(({ complete }) => complete)).toBe(false);
  const next = await tier.run({ ...sitting, resume: late.resume, untilMs: Number.POSITIVE_INFINITY });
  expect(next.resume).toBeNull();
  expect(next.covered.every(({ complete }) => complete)).toBe(true);
  expect(next.covered.filter(({ count }) => count > 0)).toHaveLength(1);
});

test("nothing is kept as whole before it is known that all was reached", { timeout }, async () => {
  const rest = (one: Unit) => one.configuration === "transaction-unlocked";
  const done = unitsOf("small")
    .filter((unit) => !rest(unit))
    .map(unitName);
  const resume = { done, tooLarge: [], reached: {} };
  const kept: unknown[] = [];
  const sitting = { volume: "small", seed: 0n, say: () => {}, untilMs: Number.POSITIVE_INFINITY } as const;
  const run = tier.run({ ...sitting, resume, keep: (result) => void kept.push(result.resume) });
  await expect(run).rejects.toThrow("never reached");
  expect(kept).toEqual([]);
});

test("exploring twice is the same twice", { timeout }, async () => {
  const bound = { switches: 0, crashes: 1, leaseEnds: 0, lost: 0 };
  for (const configuration of configurations) {
    const once = await new Explorer(configuration, bound).run();
    const twice = await new Explorer(configuration, bound).run();
    expect(twice, configuration.name).toEqual(once);
  }
  const lease = configurationNamed("lease");
  const late = { switches: 0, crashes: 0, leaseEnds: 1, lost: 1 };
  const [once, twice] = [await new Explorer(lease, late).run(), await new Explorer(lease, late).run()];
  expect(twice.digest).toBe(once.digest);
});

describe("without any reduction", () => {
  const bound = (digits: string): Bound => {
    const [switches = 0, crashes = 0, leaseEnds = 0, lost = 0] = [...digits].map(Number);
    return { switches, crashes, leaseEnds, lost };
  };
  const cases = [
    ["transaction", "1101", "late"],
    ["transaction", "1111", "lost"],
    ["lease", "0100", "late"],
    ["lease", "1000", "late"],
    ["lease", "0010", "late"],
    ["lease", "0001", "late"],
    ["lease", "0001", "replies"],
    ["enqueue-provider", "0010", "lost"],
  ] as const;
  test.each(cases)("there are the same ends: %s within %s, %s", { timeout }, async (name, digits, how) => {
    const configuration: Configuration = { ...configurationNamed(name), losses: how };
    const reduced = await new Explorer(configuration, bound(digits), { alike: false }).run();
    const { ends, schedules } = await exploreAll(configuration, bound(digits));
    expect(new Set(reduced.endTexts)).toEqual(ends);
    // A crash where nobody can tell the difference is tried once.
    if (bound(digits).crashes === 0) expect(schedules).toBe(reduced.schedules);
    else expect(schedules).toBeGreaterThan(reduced.schedules ?? 0);
  });
});

describe("whichever of two alike begins first is called the first of them", () => {
  const alike = { transaction: 2, lease: 2, "enqueue-provider": 4, "lease-other": 1 } as const;
  test.each(Object.entries(alike))("%s: each schedule stands for %d", { timeout }, async (name, count) => {
    const bound = { switches: 1, crashes: 1, leaseEnds: 0, lost: 1 };
    const configuration = configurationNamed(name);
    const all = await new Explorer(configuration, bound, { alike: false }).run();
    const once = await new Explorer(configuration, bound).run();
    expect(all.schedules).toBe((once.schedules ?? 0) * count);
    expect(once.ends).toBeGreaterThan(1);
  });
});

test.each(["lease", "steps-provider-reconcile", "steps-close-resume"])(
  "%s: taking lives for one that were told the same changes no schedule",
  { timeout },
  async (name) => {
    const configuration = configurationNamed(name);
    for (const crashes of [0, 1]) {
      const bound = { switches: 1 - crashes, crashes, leaseEnds: 1, lost: 0 };
      const each = await new Explorer(configuration, bound, { asOne: false }).run();
      const once = await new Explorer(configuration, bound).run();
      expect(once.schedules).toBe(each.schedules);
      expect(new Set(once.endTexts)).toEqual(new Set(each.endTexts));
      expect(once.positions).toBeLessThan(each.positions);
    }
  },
);

test("positions without counts are the same positions", { timeout }, async () => {
  const bound = { switches: 1, crashes: 1, leaseEnds: 0, lost: 1 };
  const configuration = configurationNamed("steps-close-reconcile");
  const counted = await new Explorer(configuration, bound).run();
  const room = counted.positions + 1;
  const seen = await new Explorer(configuration, bound, { uncounted: room }).run();
  expect(seen).toEqual({ ...counted, schedules: null });
  const stopped = new Explorer(configuration, bound, { uncounted: counted.positions - 1 });
  await expect(stopped.run(), "there is no room for the last").rejects.toThrow("harness: more than");
});

async function findPlant(plant: string, match: string): Promise<Failure> {
  for (const unit of unitsOf("small")) {
    if (!unit.configuration.startsWith(match)) continue;
    const { failure } = await runUnit({ ...unit, plant });
    if (failure !== null) return failure;
  }
  throw new Error(`The mistake was not found: ${plant}`);
}

describe("a planted mistake is found", () => {
  /** In which configurations, and as what. */
  const found: Readonly<Record<string, readonly [where: string, what: RegExp]>> = {
    "an ended lease frees its key": ["lease", /^I1: .* is released although it took effect/],
    "the end of an attempt is written without its fence": [
      "lease-rerun",
      /^I4: end let a stale owner through/,
    ],
    "a COMMIT in doubt is taken for committed": ["transaction", /^I8: told an answer .* no record/],
    "a send that may have happened is forgotten": ["enqueue", /^I7: .* was charged twice/],
    "a call in doubt counts as one that never happened": ["steps-close", /^I7: the key of .* is sent with/],
    "what cannot be found out is taken for not executed": ["steps-none", /^I6: .* its proof .* is not true/],
  };
  test.each(Object.keys(plants))("%s", { timeout }, async (plant) => {
    const [where, what] = found[plant] ?? ["", /nothing is known of this mistake/];
    const failure = await findPlant(plant, where);
    expect(failure.what).toMatch(what);
    process.stdout.write(`P1: ${plant}: ${failure.what}, after ${failure.after}\n`);
  });

  test("and its schedule is shown, and can be run again", { timeout }, async () => {
    const failure = await findPlant("a COMMIT in doubt is taken for committed", "transaction");
    const shown = proofFailure(7n, failure);
    expect(shown).toBeInstanceOf(ProofFailure);
    expect(shown.reproduce).toBe(`npm run prove -- --tier P1 --only ${failure.only}`);
    expect(shown.message).toContain("A: commit, request lost");
    const { names, failure: again } = await runOnly(failure.only);
    expect(names, "the same schedule").toEqual(failure.names);
    expect(again, "it is the mistake that fails").toBeNull();
  });
});
