/** The small bounds of one configuration of each shape, and planted mistakes that they find. */
import { describe, expect, test } from "vitest";
import { plants } from "../harness/store-plants.ts";
import { ProofFailure } from "../harness/tier.ts";
import { required } from "./required.ts";
import { proofFailure, tier } from "./tier.ts";
import { unitsOf } from "./units.ts";
import { type Failure, runOnly, runUnit, type Unit, unitName } from "./work.ts";

test.each(["transaction", "optimistic", "lease-asked", "steps-close-resume", "enqueue-lookup"])(
  "%s: every schedule inside its small bound is right",
  async (name) => {
    const units = unitsOf("small").filter(({ configuration }) => configuration === name);
    expect(units.length).toBeGreaterThan(0);
    for (const unit of units) {
      const { failure, explored } = await runUnit(unit);
      expect(failure).toBeNull();
      expect(explored?.schedules).toBeGreaterThan(100);
    }
  },
);

test("a sitting goes on where the last one ended", async () => {
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

test("nothing is kept as whole before it is known that all was reached", async () => {
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
    "a COMMIT in doubt is taken for committed": ["transaction", /^I8: got an answer .* no record/],
    "a send that may have happened is forgotten": ["enqueue", /^I7: .* was charged twice/],
    "a call in doubt counts as one that never happened": ["steps-close", /^I7: the key of .* is sent with/],
    "what cannot be found out is taken for not executed": ["steps-none", /^I6: .* its proof .* is not true/],
  };
  test.each(Object.keys(plants))("%s", async (plant) => {
    const [where, what] = found[plant] ?? ["", /nothing is known of this mistake/];
    const failure = await findPlant(plant, where);
    expect(failure.what).toMatch(what);
    process.stdout.write(`P1: ${plant}: ${failure.what}, after ${failure.after}\n`);
  });

  test("and its schedule is shown, and can be run again", async () => {
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
