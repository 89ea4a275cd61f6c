/** One synchronous failover with everything in it, in which some clients make mistakes: the checks must find each, and nothing else. */
import type { PlantedResult } from "../harness/tier.ts";
import { failOver } from "./fail-over.ts";
import { auditViolations, type Round, violations } from "./judge.ts";
import { Pair } from "./pair.ts";
import { fullest, nameOf } from "./plan.ts";
import { type Plant, plants } from "./plants.ts";
import { ProcessGroup } from "./process-group.ts";
import { expectNone, type Section, type Stage, type Tally, Violated } from "./section.ts";
import { postgresVersionsUsed } from "./sync-failover.ts";

const names = Object.keys(plants) as Plant[];

export const plantedMistakes: Section = {
  id: "planted",
  what: "synchronous failovers with planted mistakes",
  bound: `${names.length} mistakes, each in a client of its own beside two that make none`,
  runs: 3,
  small: 1,
  requiredFaults: ["primary killed", "replication stalled", "wait for the standby cancelled"],
  requiredReached: ["answer replayed", "planted mistake found"],
  versions: postgresVersionsUsed,
  open: async () => new PlantedStage(),
  measured: () => [],
};

/** As the report lists them; run 1 finds each, or fails. */
export const plantedResults: readonly PlantedResult[] = names.map((name) => ({
  name: plants[name],
  recreates: null,
  found: { P6: 1 },
}));

class PlantedStage implements Stage {
  async run(number: number): Promise<Tally> {
    const pair = await Pair.open({ synchronous: true });
    const mistaken = names.map((plant) => ({
      name: plant,
      plant,
      modes: ["transaction"] as const,
      // The proxy keeps two COMMITs back, perhaps of one client.
      loops: 3,
    }));
    // Without a worker no delivery is under way when the primary dies, whose claim would be waited for.
    const crew = await ProcessGroup.open(pair.url, [{}, {}, ...mistaken], false);
    crew.clients[0]?.send({ do: "serve" });
    const round = `p${number}`;
    const { faults, answered, outageMs } = await failOver(pair, crew, round, fullest);
    const what = `synchronous failover (${nameOf(fullest)})`;
    const sceneOf = (name: string): Round => ({
      server: pair.primary,
      receiver: crew.receiver,
      round,
      clients: crew.clients.filter(({ settings }) => settings.name === name),
    });
    const honest = sceneOf("h");
    expectNone(what, await violations(honest));
    expectNone(what, await auditViolations(honest));
    for (const plant of names) {
      const found = await violations(sceneOf(plant));
      if (found.length === 0) throw new Violated(`not found: ${plants[plant]}`, []);
    }
    await crew.close();
    await pair.close();
    const reached = { ...crew.reached(), "planted mistake found": names.length };
    return { faults, reached, sums: { answers: answered.length, outageMs } };
  }

  async close(): Promise<void> {}
}
