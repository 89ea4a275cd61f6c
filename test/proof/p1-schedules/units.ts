/** What a volume consists of. Each unit is explored as a whole, or not at all. */
import type { Sitting } from "../harness/tier.ts";
import { configurations, half, whole } from "./configurations.ts";
import type { Unit } from "./work.ts";

/** More do not fit into one thread's memory. */
const positionsMax = 45_000_000;
/** One that takes longer than this is given up, and said so. */
const limitMs = 3_600_000;

export function unitsOf(volume: Sitting["volume"]): readonly Unit[] {
  const unit = { positionsMax, limitMs, plant: null };
  if (volume === "small") {
    return configurations.flatMap(({ name, small }) =>
      small.map((bound) => ({ ...unit, configuration: name, bound })),
    );
  }
  // The smaller bound of all of them first: whatever comes after, that much is known.
  return [half, whole].flatMap((bound) =>
    configurations.map(({ name }) => ({ ...unit, configuration: name, bound })),
  );
}
