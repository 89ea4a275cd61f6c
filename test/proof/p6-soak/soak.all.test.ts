import { expect, test } from "vitest";
import { isProof, isThorough } from "../../support/thorough.ts";
import { findPlant } from "./plant-runs.ts";
import { type Plant, plants } from "./plants.ts";
import { soak } from "./soak.ts";

const seed = 20261122n;

test("nothing is lost, doubled or stuck while everything breaks", async () => {
  const lines: string[] = [];
  const result = await soak.run({
    volume: "small",
    untilMs: Number.POSITIVE_INFINITY,
    seed,
    resume: null,
    say: (line) => lines.push(line),
  });
  const [kills] = result.covered;
  expect(kills?.count).toBeGreaterThanOrEqual(6);
  expect(result.faults["kill -9 of Postgres"]).toBeGreaterThanOrEqual(4);
  expect(result.faults["kill -9 of a server process"]).toBeGreaterThanOrEqual(4);
  expect(result.reached["keys acknowledged during the faults"]).toBeGreaterThan(0);
});

/** What each is found by; the others need more time than the test command has. */
const quick: readonly Plant[] = ["answers-before-commit", "stale-owner-answers"];
test.runIf(isThorough).each(isProof ? (Object.keys(plants) as Plant[]) : quick)(
  "planted: %s is found",

  async (plant) => {
    const found = await findPlant(plant, seed);
    expect(found).not.toBeNull();
    process.stderr.write(`planted ${plant}: ${found?.invariant} after ${found?.after} faults\n`);
  },
);
