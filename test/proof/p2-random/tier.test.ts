/** A few hundred random schedules, and planted mistakes that they find. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { drawFrom, seedOf } from "../harness/seeded.ts";
import type { Plant } from "../harness/store-plants.ts";
import { ProofFailure } from "../harness/tier.ts";
import { type BatchResult, optionsOf, runBatch, runOnly, traceOf } from "./batch.ts";
import { Choices } from "./choices.ts";
import { plants } from "./plants.ts";
import { runSchedule } from "./schedule.ts";
import { shrunk } from "./shrink.ts";
import { proofFailure } from "./tier.ts";

const seed = 0x1d3a_5f00_7c21_9be4n;
const isProof = process.env.LATCHKEY_PROVE === "1";

test("random schedules break nothing", async () => {
  const result = await runBatch({ seed, from: 0, to: 400, every: 16, plant: null, shrinkTries: 0 });
  expect(result.failure).toBeNull();
  expect(result.schedules).toBe(400);
  expect(Object.keys(result.faults).length).toBeGreaterThan(12);
});

function find(plant: string, shrinkTries: number): Promise<BatchResult> {
  return runBatch({ seed, from: 0, to: 20_000, every: 16, plant, shrinkTries });
}

describe("a planted mistake is found", () => {
  test.each(Object.keys(plants))("%s", async (plant) => {
    const { failure } = await find(plant, 0);
    expect(failure?.invariant).toMatch(/^[IL]\d+$/);
    process.stdout.write(`P2: ${plant}: ${failure?.invariant}, schedule ${failure?.only}\n`);
  });

  test("and its schedule is shown as short as it can be made", async () => {
    const { failure } = await find("a COMMIT in doubt is taken for committed", 1_000);
    if (failure === null) throw new Error("The mistake was not found");
    const shown = proofFailure(seed, failure, 7);
    expect(shown).toBeInstanceOf(ProofFailure);
    expect(shown.message).toContain("I8: got an answer of ");
    expect(shown.message).toMatch(/call commit(Batch)?: (late|request_lost)/);
    expect(shown.message).toContain("found after 7\n");
    expect(shown.reproduce).toBe(
      `npm run prove -- --tier P2 --seed 0x${seed.toString(16)} --only ${failure.only}`,
    );
    expect(failure.lines.length, "a handful of steps").toBeLessThan(20);
    expect(await runOnly(seed, failure.only), "it is the mistake that fails").toBeNull();
  });

  test("by lists that fast-check draws and shortens, too", async () => {
    const lists = fc.array(fc.nat({ max: 63 }), { maxLength: 90, size: "max" });
    const breaks = (plant: string | null) =>
      fc.check(
        fc.asyncProperty(lists, async (list) => {
          const { violation } = await runSchedule(Choices.given(list), optionsOf(plant));
          if (violation !== null) throw new Error(`${violation.invariant}: ${violation.what}`);
        }),
        { seed: 11, numRuns: isProof ? 20_000 : 200, endOnFailure: false },
      );
    expect((await breaks(null)).counterexample).toBeNull();
    const found = await breaks("an answer is stored with its bytes changed");
    expect(String(found.errorInstance)).toMatch(/I3|I4/);
    expect(found.numShrinks).toBeGreaterThan(0);
  });
});

test("a world that is not the same twice is noticed", async () => {
  let readings = 0;
  const drifting: Plant = (store) => ({
    async read(key) {
      readings += 1;
      const reading = await store.read(key);
      return readings % 7 === 0 ? { ...reading, record: null } : reading;
    },
  });
  const runs = Array.from({ length: 20 }, (_, run) => run);
  const traces = async (plant?: Plant) => {
    const hashes: number[] = [];
    for (const run of runs) hashes.push(await traceOf(seed, run, plant === undefined ? {} : { plant }));
    return hashes;
  };
  expect(await traces(drifting)).not.toEqual(await traces(drifting));
  expect(await traces()).toEqual(await traces());
});

test("a list is made short and low, and stays one that fails", async () => {
  const draw = drawFrom(seedOf(seed, 1));
  const list = Array.from({ length: 60 }, () => draw.below(50));
  const fails = (candidate: readonly number[]) => candidate.filter((value) => value >= 9).length >= 3;
  const small = await shrunk(list, async (candidate) => (fails(candidate) ? candidate : null), 5_000);
  expect(small).toEqual([9, 9, 9]);
});
