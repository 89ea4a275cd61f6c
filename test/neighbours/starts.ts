/** How a framework's app with one neighbour is started. */
import type { Served } from "./served.ts";
import type { NeighbourName } from "./table.ts";
import type { World } from "./world.ts";

/** For each neighbour that a front end is run with, its app around a protected route. */
export type Starts = Readonly<Partial<Record<NeighbourName, (world: World) => Promise<Served>>>>;

/** @param mounts how each neighbour gets into an app of the framework */
export function startsOf<Mount>(
  start: (mount: Mount, world: World) => Promise<Served>,
  mounts: Readonly<Partial<Record<NeighbourName, Mount>>>,
): Starts {
  return Object.fromEntries(
    Object.entries(mounts).map(([name, mount]) => [name, (world: World) => start(mount, world)]),
  );
}
