/** Plants mistakes into the memory store, which then stands beside itself without the mistake. */
import { runBatch } from "./batch.ts";
import type { Bench, StoreKind, Subject } from "./bench.ts";
import { Lane } from "./lane.ts";
import { memory } from "./memory-bench.ts";
import { partNamed } from "./parts.ts";
import type { Plant } from "./plant.ts";
import { callPlants } from "./plants-calls.ts";
import { operationPlants } from "./plants-operations.ts";

export const plants: readonly Plant[] = [...callPlants, ...operationPlants];

/** How many sequences it takes to find it; null: more than `max`. */
export async function findPlant(
  plant: Plant,
  seed: bigint,
  max: number,
): Promise<{ readonly after: number; readonly what: string } | null> {
  const part = partNamed(plant.part);
  const lane = await Lane.open([memory, plantedInto(memory, plant)], { lane: 0, postgres: null });
  const { failure, played } = await runBatch(lane, {
    part: part.name,
    seed,
    from: 0,
    to: max,
    every: max,
    shrinkTries: 0,
    untilMs: Number.POSITIVE_INFINITY,
  });
  await lane.close();
  return failure && { after: played, what: failure.what };
}

export function plantedInto(kind: StoreKind, { change }: Plant): StoreKind {
  const planted = (subject: Subject): Subject => ({
    ...subject,
    name: `${subject.name}, planted`,
    store: { ...subject.store, ...change(subject.store) },
  });
  const bench = (one: Bench): Bench => ({ ...one, begin: async (clock) => planted(await one.begin(clock)) });
  return {
    name: kind.name,
    async open(place) {
      const opened = await kind.open(place);
      return opened && bench(opened);
    },
  };
}
