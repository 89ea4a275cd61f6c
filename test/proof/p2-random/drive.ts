/** Steps of a world, one after the other, each once everything that the one before has started waits again. */
import type { World } from "./world.ts";

const settled = Promise.resolve();

/**
 * Between two steps all promise reactions run: nothing in the world waits for input or output. A tick that is asked for in
 * a reaction comes when none is left, without a turn of the event loop.
 */
export function drive(world: World, step: () => boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    const soon = () => void settled.then(() => process.nextTick(turn));
    const turn = () => {
      try {
        world.checkStep();
        if (world.report.violation !== null || !step()) resolve();
        else soon();
      } catch (error) {
        reject(error);
      }
    };
    soon();
  });
}
