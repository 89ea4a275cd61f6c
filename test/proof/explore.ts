/** Every schedule of a world, depth first. A state that was seen before has been explored with all that follows. */
import { type Bounds, World } from "./world.ts";

export interface Exploration {
  /** Different states met. */
  readonly states: number;
  /** Schedules covered, from the beginning to the end. */
  readonly schedules: number;
}

/** Calls `check` on each different end, and names the schedule when it throws. */
export async function explore(bounds: Bounds, check: (world: World) => Promise<void>): Promise<Exploration> {
  const known = new Map<string, number>();

  /** How many schedules lead from here to an end. `world` is used up. */
  const visit = async (world: World, schedule: readonly string[]): Promise<number> => {
    const state = await world.state();
    const seen = known.get(state);
    if (seen !== undefined) return seen;
    const choices = world.choices();
    let count = choices.length === 0 ? 1 : 0;
    if (choices.length === 0) {
      await check(world).catch((cause: unknown) => {
        throw new Error(`Schedule: ${schedule.join(" | ")}`, { cause });
      });
    }
    // The first one last: this very world can go on with it.
    for (const [index, choice] of [...choices.entries()].reverse()) {
      const longer = [...schedule, choice.name];
      if (index === 0) await world.take(choice);
      count += await visit(index === 0 ? world : await replay(bounds, longer), longer);
    }
    known.set(state, count);
    return count;
  };

  const schedules = await visit(await replay(bounds, []), []);
  return { states: known.size, schedules };
}

/** A new world, brought to where this schedule leads. */
async function replay(bounds: Bounds, schedule: readonly string[]): Promise<World> {
  const world = new World(bounds);
  await world.begin();
  for (const name of schedule) {
    const choice = world.choices().find((candidate) => candidate.name === name);
    if (choice === undefined)
      throw new Error(`The world is not deterministic: "${name}" cannot happen again`);
    await world.take(choice);
  }
  return world;
}
