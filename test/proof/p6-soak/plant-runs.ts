/** Looks for planted mistakes: short epochs, with the faults and requests that bring each of them to light. */
import { seedOf } from "../harness/seeded.ts";
import { runEpoch } from "./epoch.ts";
import type { FaultKind } from "./faults.ts";
import type { Route } from "./history.ts";
import type { Plant } from "./plants.ts";

interface PlantPlan {
  readonly lanes: readonly (readonly FaultKind[])[];
  readonly routes: readonly Route[];
  /** What it must be found by: anything else may be the machine's. */
  readonly shownBy: readonly string[];
  readonly epochsMax: number;
}

export interface FoundPlant {
  /** Faults injected until then. */
  readonly after: number;
  /** What has shown it. */
  readonly invariant: string;
  readonly text: string;
}

const frozen = "frozen for longer than a lease";

const killed = "server killed";
const lost = "COMMIT lost";

export const plantPlans: Readonly<Record<Plant, PlantPlan>> = {
  "answers-before-commit": {
    lanes: [[lost, "COMMIT held, Postgres killed", lost]],
    routes: ["pay"],
    shownBy: ["I1", "I3", "I14", "I15"],
    epochsMax: 20,
  },
  "replays-any-body": { lanes: [[killed]], routes: ["pay", "charge"], shownBy: ["I2"], epochsMax: 20 },
  "frees-ended-leases": {
    lanes: [[frozen, frozen], [killed]],
    routes: ["grab"],
    shownBy: ["I1"],
    epochsMax: 40,
  },
  "sends-without-start": { lanes: [[killed, killed]], routes: ["order"], shownBy: ["I7"], epochsMax: 40 },
  "key-per-process": {
    lanes: [[frozen, frozen], [killed]],
    routes: ["charge"],
    shownBy: ["I7"],
    epochsMax: 40,
  },
  "writes-beside-tx": { lanes: [[lost, lost]], routes: ["pay"], shownBy: ["I1", "I8"], epochsMax: 20 },
  "stale-owner-answers": {
    lanes: [[frozen, frozen, frozen]],
    routes: ["grab"],
    shownBy: ["I14"],
    epochsMax: 40,
  },
  "nobody-rescues": { lanes: [[killed, killed, killed]], routes: ["report"], shownBy: ["L1"], epochsMax: 40 },
  "leaks-connections": {
    lanes: [["Postgres killed", "connections cut", "connections cut"]],
    routes: ["grab"],
    shownBy: ["L1", "L5"],
    // It shows where a connection is cut in the middle of an insert, which takes under a millisecond on a quick machine.
    epochsMax: 40,
  },
};

const settings = {
  servers: 2,
  clients: 6,
  pauseMs: 25,
  leaseMs: 400,
  patienceMs: 20_000,
  hurries: "claims, too",
  version: 18,
  untilMs: Number.POSITIVE_INFINITY,
} as const;

/** Null: it was not found. */
export async function findPlant(plant: Plant, seed: bigint): Promise<FoundPlant | null> {
  const { lanes, routes, shownBy, epochsMax } = plantPlans[plant];
  let after = 0;
  for (let number = 0; number < epochsMax; number++) {
    const { chaos, wrong } = await runEpoch({
      ...settings,
      seed: seedOf(seed, number),
      number,
      chaos: { lanes, pauseMs: 300 },
      plant,
      routes,
    });
    after += Object.values(chaos.faults).reduce((sum, count) => sum + count, 0);
    if (wrong !== null && shownBy.includes(wrong.invariant)) return { after, ...wrong };
  }
  return null;
}
