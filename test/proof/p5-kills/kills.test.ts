/** A part of P5, with the points of the day; and planted mistakes, each found at one death. LATCHKEY_PROVE=1: all of it. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openWorld, type World } from "./lane.ts";
import { findPlanted } from "./planted.ts";
import { plants } from "./plants.ts";
import { tier } from "./tier.ts";

const volume = process.env.LATCHKEY_PROVE === "1" ? "full" : "small";
const limitMs = volume === "full" ? 2 * 60 * 60_000 : 240_000;
/** Others each day, and the same all day. */
const seed = BigInt(Math.floor(Date.now() / 86_400_000));

test("killed at every port call", { timeout: limitMs }, async () => {
  const say = (line: string) => process.stdout.write(`P5: ${line}\n`);
  const { covered, reached } = await tier.run({
    volume,
    untilMs: Number.POSITIVE_INFINITY,
    seed,
    resume: null,
    say,
  });
  for (const { what, count } of covered) say(`${count} ${what}`);
  expect(covered.reduce((sum, { count }) => sum + count, 0)).toBeGreaterThan(20);
  expect(reached["unanswered COMMIT: committed"]).toBeGreaterThan(0);
});

/** What is violated by each. */
const invariants: Readonly<Record<(typeof plants)[number], RegExp>> = {
  "answers before its COMMIT": /^I15/u,
  "accepts before it is kept": /^I15/u,
  "outbox row in a transaction of its own": /^I9/u,
  "start written after the send": /^I[17]/u,
  "key of a call changes with the attempt": /^I[17]/u,
  "finished steps are forgotten": /^L1/u,
  "releases what is unknown": /^I[17]/u,
  "forgets that a dead claim had sent": /^I[17]/u,
  "closes alone": /^I1/u,
};

describe("a planted mistake is found", () => {
  let world: World;
  beforeAll(async () => {
    world = await openWorld();
  });
  afterAll(() => world.close());

  test.each(plants)("%s", { timeout: 120_000 }, async (plant) => {
    for await (const { after, said } of findPlanted(world, [plant])) {
      expect(said).toMatch(invariants[plant]);
      expect(after).toBe(1);
    }
  });
});
