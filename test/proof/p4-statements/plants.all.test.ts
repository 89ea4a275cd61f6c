import { beforeAll, describe, expect, test } from "vitest";
import { notRun } from "../../support/not-run.ts";
import { installedVersions } from "../../support/postgres-binaries.ts";
import type { PrivatePostgres } from "../../support/private-postgres.ts";
import { sample } from "../../support/thorough.ts";
import { drawFrom } from "../harness/seeded.ts";
import { DepthFirst, Drawn, Given } from "./choosers.ts";
import { Lane } from "./lane.ts";
import { plants } from "./plants.ts";
import { play } from "./play.ts";
import { everyIsolation, faultKinds } from "./scenario.ts";
import { scenarioNamed, scenarios } from "./scenarios.ts";
import { findPlant, laneOf, startServer } from "./work.ts";

const seed = 0x5eed_0004n;
const versions = installedVersions();
if (versions.length === 0) notRun("interleavings of statements", "no PostgreSQL is installed");

describe.runIf(versions.length > 0)("interleavings of statements", () => {
  describe("what it is made of", () => {
    let server: PrivatePostgres;
    beforeAll(async () => {
      server = await startServer(versions.at(-1) ?? 18);
      return () => server.stop();
    });

    test("the same choices lead to the same end", async () => {
      const lane = await Lane.open({ server, number: 0, isolation: "read committed" });
      const scenario = scenarioNamed("owner-against-take-over");
      const first = await play(lane, scenario, new Drawn(drawFrom(seed)), faultKinds);
      const second = await play(lane, scenario, new Given(first.picks), faultKinds);
      expect(second).toEqual(first);
      expect(first.broken).toEqual([]);
      await lane.close();
    });

    test.each(everyIsolation)("an interleaving leaves nothing to the next one, at %s", async (isolation) => {
      const lane = await Lane.open({ server, number: 50 + everyIsolation.indexOf(isolation), isolation });
      const chooser = new DepthFirst();
      while (!chooser.done) {
        await play(lane, scenarioNamed("late-commit"), chooser, faultKinds);
        expect(chooser.lastDivergence).toBeNull();
        chooser.advance();
      }
      await lane.close();
    });

    test.each(sample(plants, 4).map((plant, index) => [plant.name, index, plant] as const))(
      "is found: %s",

      async (_, index, plant) => {
        const { scenario, faults } = plant;
        const lane = await laneOf(plant, server, 1 + index);
        const found = await findPlant(lane, scenarioNamed(scenario), faults, 400);
        expect(found?.played.broken).not.toEqual([]);
        expect(found?.after).toBeGreaterThan(0);
        await lane.close();
      },
    );
  });

  test("every scenario has a name of its own", () => {
    expect(new Set(scenarios.map(({ name }) => name)).size).toBe(scenarios.length);
  });
});
