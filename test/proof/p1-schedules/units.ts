/** What a volume consists of. Each unit is explored as a whole, or given up, which is reported. */
import type { Sitting } from "../harness/tier.ts";
import type { Bound, Losses } from "./bound.ts";
import { type Configuration, configurations, half, whole } from "./configurations.ts";
import type { Unit } from "./work.ts";

/** So many fit into one thread's memory: 16 bytes each, and up to as much again for room; 6 bytes without counts. */
const positionsMax = { counted: 110_000_000, uncounted: 500_000_000 } as const;
const limitMs = 5_400_000;

const oneLeaseEnd: Bound = { ...whole, leaseEnds: 1 };
const nothingLost: Bound = { ...whole, lost: 0 };
/** Both ends of a lease beside a dispatcher: with deaths, or with somebody who freezes. */
const twice: readonly Bound[] = [
  { ...nothingLost, switches: 0 },
  { ...nothingLost, switches: 1, crashes: 0 },
];

export function unitsOf(volume: Sitting["volume"]): readonly Unit[] {
  if (volume === "small") {
    return configurations.flatMap((one) => one.small.map((bound) => unitOf(one, bound)));
  }
  const others = configurations.filter((one) => !hasSteps(one));
  const [largest, steps] = [configurations.filter(isLargest), configurations.filter(isSteps)];
  return [
    // The smaller bounds of all of them first: whatever comes after, that much is known.
    ...configurations.map((one) => unitOf(one, half)),
    ...others.map((one) => unitOf(one, whole)),
    ...largest.map((one) => losing(unitOf(one, { ...oneLeaseEnd, lost: 0 }), "lost")),
    ...largest.flatMap((one) => twice.map((bound) => unitOf(one, bound))),
    // More than is asked for, but for two ends of a lease and a loss together.
    ...steps.map((one) => unitOf(one, oneLeaseEnd)),
    ...steps.map((one) => unitOf(one, nothingLost)),
    ...largest.map((one) => uncounted(losing(unitOf(one, oneLeaseEnd), "lost"))),
    ...steps.toSorted(largerFirst).map((one) => uncounted(losing(unitOf(one, whole), "replies"))),
  ];
}

function uncounted(unit: Unit): Unit {
  return { ...unit, counts: false, positionsMax: positionsMax.uncounted };
}

function losing(unit: Unit, losses: Losses): Unit {
  return { ...unit, losses };
}

/** What is resumed comes to half as many positions again. */
function largerFirst(one: Configuration, other: Configuration): number {
  return Number(other.plan.leaseEnd === "resume") - Number(one.plan.leaseEnd === "resume");
}

function hasSteps({ plan }: Configuration): boolean {
  return plan.shape === "steps";
}

/** With a dispatcher it is explored inside smaller bounds, and the whole one in two parts: see apart.ts. */
function isLargest(one: Configuration): boolean {
  return hasSteps(one) && one.services.includes("dispatcher");
}

function isSteps(one: Configuration): boolean {
  return hasSteps(one) && !isLargest(one);
}

function unitOf({ name, losses }: Configuration, bound: Bound): Unit {
  const positions = positionsMax.counted;
  return { configuration: name, bound, losses, positionsMax: positions, counts: true, limitMs, plant: null };
}
