/** Planted mistakes, each found at one death. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { sample } from "../../support/thorough.ts";
import { openWorld, type World } from "./lane.ts";
import { findPlanted } from "./planted.ts";
import { plants } from "./plants.ts";

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

  test.each(sample(plants, 3))("%s", async (plant) => {
    for await (const { after, message } of findPlanted(world, [plant])) {
      expect(message).toMatch(invariants[plant]);
      expect(after).toBe(1);
    }
  });
});
