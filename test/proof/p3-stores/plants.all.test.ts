/** Planted mistakes that sequences of calls find. */
import { describe, expect, test } from "vitest";
import { ProofFailure } from "../harness/tier.ts";
import { type Batch, runBatch } from "./batch.ts";
import { Lane } from "./lane.ts";
import { memory } from "./memory-bench.ts";
import { partNamed } from "./parts.ts";
import type { Plant } from "./plant.ts";
import { findPlant, plantedInto, plants } from "./plants.ts";
import { failureOf } from "./tier.ts";

const seed = 0x5eed_0003n;
/** Each is found by far fewer, over memory alone. */
const plantRunsMax = 100;
const untilMs = Number.POSITIVE_INFINITY;

const batch: Batch = { part: "calls", seed, from: 0, to: 40, every: 1, shrinkTries: 0, untilMs };
const place = { lane: 0, postgres: null };

describe("a planted mistake is found", () => {
  test.each(plants.map((plant) => [plant.name, plant] as const))("%s", async (_, plant) => {
    const found = await findPlant(plant, seed, plantRunsMax);
    expect(found?.what).toContain("memory, planted: ");
    expect(found?.after).toBeGreaterThan(0);
    process.stdout.write(`P3: ${plant.name}: sequence ${found?.after}\n`);
  });

  test("and its sequence is shown as short as it can be made", async () => {
    const [plant] = plants;
    if (plant === undefined) throw new TypeError("There are plants");
    const lane = await Lane.open([memory, plantedInto(memory, plant)], place);
    const { failure, played } = await runBatch(lane, { ...batch, to: 80, shrinkTries: 500 });
    if (failure === null) throw new Error("The mistake was not found");
    const shown = failureOf(partNamed("calls"), seed, failure, played);
    expect(shown).toBeInstanceOf(ProofFailure);
    expect(shown.reproduce).toBe(
      `npm run prove -- --tier P3 --seed 0x${seed.toString(16)} --only calls:${failure.run}`,
    );
    expect(shown.message).toMatch(
      /the stores differ: renew .*\n {2}memory: refused\n {2}memory, planted: true/,
    );
    expect(failure.lines.length, "a handful of calls").toBeLessThan(10);
  });
});

test("a store that does not do the same twice is noticed", async () => {
  let calls = 0;
  const drifting: Plant = {
    name: "drifts",
    part: "calls",
    change: (store) => ({
      async renew(...given) {
        calls += 1;
        return (await store.renew(...given)) && calls % 3 !== 0;
      },
    }),
  };
  const alone = await Lane.open([plantedInto(memory, drifting)], place);
  expect((await runBatch(alone, batch)).failure?.what).toBe("the same sequence has gone two ways");
  const sound = await Lane.open([memory], place);
  expect((await runBatch(sound, batch)).twice).toBe(40);
});

test("a store that never answers is named, and nobody waits for it", async () => {
  const silent: Plant = {
    name: "never answers",
    part: "calls",
    change: () => ({ renew: () => new Promise(() => {}) }),
  };
  const lane = await Lane.open([memory, plantedInto(memory, silent)], place, 200);
  const { failure } = await runBatch(lane, { ...batch, shrinkTries: 500 });
  expect(failure?.what).toMatch(/^renew .*: memory, planted does not come to an end$/);
  await lane.close();
});
