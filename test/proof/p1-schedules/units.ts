/** What a volume consists of. Each unit is explored as a whole, or given up and said so. */
import type { Sitting } from "../harness/tier.ts";
import type { Bound } from "./bound.ts";
import { type Configuration, configurations, half, whole } from "./configurations.ts";
import type { Unit } from "./work.ts";

/** So many fit into one thread's memory: 16 bytes each, and up to as much again for room; 6 bytes without counts. */
const positionsMax = { counted: 110_000_000, uncounted: 500_000_000 } as const;
/** Where no end is in sight, so many are looked at: some minutes' worth. */
const sampleMax = 30_000_000;
const limitMs = 5_400_000;

const oneLeaseEnd: Bound = { ...whole, leaseEnds: 1 };
const nothingLost: Bound = { ...whole, lost: 0 };

export function unitsOf(volume: Sitting["volume"]): readonly Unit[] {
  if (volume === "small") {
    return configurations.flatMap((one) => one.small.map((bound) => unitOf(one, bound)));
  }
  const others = configurations.filter((one) => !hasSteps(one));
  const steps = configurations.filter((one) => hasSteps(one) && !one.plan.enqueues);
  const largest = configurations.filter((one) => hasSteps(one) && one.plan.enqueues);
  return [
    // The smaller bounds of all of them first: whatever comes after, that much is known.
    ...configurations.map((one) => unitOf(one, half)),
    ...others.map((one) => unitOf(one, whole)),
    ...largest.map((one) => inTime(unitOf(one, { ...oneLeaseEnd, lost: 0 }))),
    // Of the whole bound for steps, all but two ends of a lease and a loss together.
    ...steps.map((one) => unitOf(one, oneLeaseEnd)),
    ...steps.map((one) => unitOf(one, nothingLost)),
    ...largest.map((one) => uncounted(inTime(unitOf(one, oneLeaseEnd)))),
    ...largest.map((one) => uncounted(unitOf(one, nothingLost))),
    ...steps.toSorted(smallerFirst).map((one) => uncounted(inTime(unitOf(one, whole)))),
    ...largest.map((one) => ({ ...inTime(unitOf(one, whole)), positionsMax: sampleMax })),
  ];
}

function uncounted(unit: Unit): Unit {
  return { ...unit, counts: false, positionsMax: positionsMax.uncounted };
}

/** Requests and replies are lost, and not late. */
function inTime(unit: Unit): Unit {
  return { ...unit, late: false };
}

/** What is resumed comes to half as many positions again. */
function smallerFirst(one: Configuration, other: Configuration): number {
  return Number(one.plan.leaseEnd === "resume") - Number(other.plan.leaseEnd === "resume");
}

function hasSteps({ plan }: Configuration): boolean {
  return plan.shape === "steps";
}

function unitOf({ name, late }: Configuration, bound: Bound): Unit {
  const positions = positionsMax.counted;
  return { configuration: name, bound, late, positionsMax: positions, counts: true, limitMs, plant: null };
}
