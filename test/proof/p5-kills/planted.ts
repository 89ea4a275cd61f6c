/** Whether planted mistakes are found. */
import { DeathFailure, runDeaths } from "./deaths.ts";
import type { World } from "./lane.ts";
import { type Plant, plants } from "./plants.ts";
import { targetOf } from "./targets.ts";

export interface FoundPlant {
  readonly plant: Plant;
  /** How many deaths it took; null: it was not found. */
  readonly after: number | null;
  /** What was found. */
  readonly message: string;
}

/** Plants one after the other, each in a lane of its own. */
export async function* findPlanted(
  world: World,
  which: readonly Plant[] = plants,
): AsyncGenerator<FoundPlant> {
  for (const plant of which) yield await findOne(world, plant);
}

async function findOne(world: World, plant: Plant): Promise<FoundPlant> {
  const lane = await world.openLane(plant);
  try {
    await runDeaths([lane], world, [targetOf(plant)], () => {});
    return { plant, after: null, message: "" };
  } catch (error) {
    if (!(error instanceof DeathFailure)) throw error;
    return { plant, after: 1, message: error.message };
  }
}
