/** What a volume consists of. Each unit is explored as a whole, or given up and said so. */
import type { Sitting } from "../harness/tier.ts";
import type { Bound } from "./bound.ts";
import { type Configuration, configurations, half, whole } from "./configurations.ts";
import type { Unit } from "./work.ts";

/** So many fit into one thread's memory: 16 bytes each, and as much again for room. */
const positionsMax = 90_000_000;
/** Where no end was in sight at fifty million, so many are looked at: some minutes' worth. */
const sampleMax = 30_000_000;
const limitMs = 3_600_000;

/** With a second end of a lease the steps of a life come to some thirty times as many positions. */
const oneLeaseEnd: Bound = { ...whole, leaseEnds: 1 };
const nothingLost: Bound = { ...oneLeaseEnd, lost: 0 };

export function unitsOf(volume: Sitting["volume"]): readonly Unit[] {
  if (volume === "small") {
    return configurations.flatMap((one) => one.small.map((bound) => unitOf(one, bound)));
  }
  const steps = configurations.filter(hasSteps);
  const others = configurations.filter((one) => !hasSteps(one));
  return [
    // The smaller bounds of all of them first: whatever comes after, that much is known.
    ...others.map((one) => unitOf(one, half)),
    ...steps.map((one) => unitOf(one, nothingLost)),
    ...others.map((one) => unitOf(one, whole)),
    ...steps.map((one) => unitOf(one, half)),
    ...steps.map((one) => ({ ...unitOf(one, oneLeaseEnd), late: false })),
    ...steps.map((one) => ({ ...unitOf(one, whole), positionsMax: sampleMax })),
  ];
}

function hasSteps({ plan }: Configuration): boolean {
  return plan.shape === "steps";
}

function unitOf({ name, late }: Configuration, bound: Bound): Unit {
  return { configuration: name, bound, late, positionsMax, limitMs, plant: null };
}
