/** Deaths one after the other, in several lanes at once: each lane makes the next process ready while one is being mourned. */
import { judge } from "./judge.ts";
import { judgeCleaning } from "./judge-cleaning.ts";
import type { Lane, World } from "./lane.ts";
import { type Mode, modes } from "./modes.ts";
import type { Plant } from "./plants.ts";
import { nameOfPoint, type Point, pointNamed, pointsOf } from "./points.ts";
import { type Counts, reachedBy } from "./reach.ts";
import { type Case, openCase, runDeath, runUndisturbed, stopCase } from "./run-case.ts";

export interface Death {
  readonly mode: Mode;
  readonly point: Point;
}

/** As a failure and its reproduction name it. */
function nameOfDeath({ mode, point }: Death): string {
  return `${mode.name}: ${nameOfPoint(point)}`;
}

/** @throws {TypeError} when there is no such mode or point */
export function deathNamed(name: string): Death {
  const mode = modes.find((one) => name.startsWith(`${one.name}: `));
  if (mode === undefined) throw new TypeError(`no mode of ${name}`);
  return { mode, point: pointNamed(mode.series, name.slice(mode.name.length + 2)) };
}

/** What went wrong at a death. */
export class DeathFailure extends Error {
  override readonly name = "DeathFailure";
  readonly death: string;

  constructor(death: Death, cause: unknown) {
    const what = nameOfDeath(death);
    super(`${cause instanceof Error ? cause.message : String(cause)}\n  killed in ${what}`, { cause });
    this.death = what;
  }
}

let cases = 0;

function nextName(): string {
  cases += 1;
  return `c${cases}`;
}

/** Every point of these modes, in their order: each runs once undisturbed. */
export async function findDeaths(
  lanes: readonly Lane[],
  world: World,
  wanted: readonly Mode[],
): Promise<Death[]> {
  const found = new Map<Mode, readonly Point[]>();
  const queue = wanted.values();
  const work = async (lane: Lane) => {
    for (const mode of queue) found.set(mode, await findPoints(lane, world, mode));
  };
  await allOrFirst(lanes.map(work));
  return wanted.flatMap((mode) => (found.get(mode) ?? []).map((point) => ({ mode, point })));
}

async function findPoints(lane: Lane, world: World, mode: Mode): Promise<readonly Point[]> {
  const one = await openCase(lane, { name: nextName(), mode, point: null }, optionsOf(lane, world));
  try {
    const lived = await runUndisturbed(lane, one);
    return pointsOf(mode.series, lived[mode.series]);
  } catch (cause) {
    throw new Error(`${mode.name}, undisturbed: ${String(cause)}`, { cause });
  } finally {
    await stopCase(one);
  }
}

/** All of them come to their ends; then the first failure is thrown. */
async function allOrFirst(works: readonly Promise<void>[]): Promise<void> {
  const ends = await Promise.allSettled(works);
  const failure = ends.find((end) => end.status === "rejected");
  if (failure !== undefined) throw failure.reason;
}

function optionsOf({ plant }: Lane, { compileCache }: World): { plant: Plant | null; compileCache: string } {
  return { plant, compileCache };
}

export interface Died {
  readonly death: Death;
  readonly reached: Counts;
}

/**
 * Lets them die, several at once, in their order. What has been begun is brought to its end.
 *
 * @param goesOn asked before each; false: no more are begun
 * @throws {DeathFailure} at the first that goes wrong
 */
export async function runDeaths(
  lanes: readonly Lane[],
  world: World,
  deaths: readonly Death[],
  died: (one: Died) => void,
  goesOn: () => boolean = () => true,
): Promise<void> {
  const queue = deaths.values();
  let failed = false;
  const take = () => (failed || !goesOn() ? undefined : queue.next().value);
  const open = async (lane: Lane, death: Death | undefined) => {
    if (death === undefined) return null;
    return { death, one: await openCase(lane, { name: nextName(), ...death }, optionsOf(lane, world)) };
  };
  const work = async (lane: Lane) => {
    let next = await open(lane, take());
    while (next !== null) {
      const { death, one } = next;
      const ahead = open(lane, take());
      try {
        died({ death, reached: await dieOnce(lane, world, death, one) });
      } catch (cause) {
        failed = true;
        const unused = await ahead;
        if (unused !== null) await stopCase(unused.one);
        throw cause instanceof DeathFailure ? cause : new DeathFailure(death, cause);
      }
      next = await ahead;
    }
  };
  await allOrFirst(lanes.map(work));
}

/** A starved process may lose its way, once. */
const triesMax = 2;

async function dieOnce(lane: Lane, world: World, death: Death, first: Case): Promise<Counts> {
  const { mode, point } = death;
  let one = first;
  for (let tries = 1; ; tries++) {
    try {
      const story = await runDeath(lane, one, point);
      if (story !== null) {
        if (story.kind === "cleaned") judgeCleaning(story);
        else judge(story);
        return reachedBy(story);
      }
    } finally {
      await stopCase(one);
    }
    if (tries === triesMax) throw new Error("it did not come to its point");
    one = await openCase(lane, { name: nextName(), mode, point }, optionsOf(lane, world));
  }
}
