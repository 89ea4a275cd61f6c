/** P5: a process that is killed at each of its port calls, in every mode of execution. */
import { drawFrom } from "../harness/seeded.ts";
import {
  type Coverage,
  expectReached,
  type PlantedResult,
  ProofFailure,
  type Sitting,
  type Tier,
  type TierResult,
} from "../harness/tier.ts";
import { workersCount } from "../harness/workers.ts";
import { type Death, DeathFailure, deathNamed, findDeaths, runDeaths } from "./deaths.ts";
import { type Lane, openWorld, type World } from "./lane.ts";
import { families, type Mode, modes } from "./modes.ts";
import { findPlanted } from "./planted.ts";
import { Tally } from "./tally.ts";

export const tier: Tier = {
  id: "P5",
  run,
};

/** One waits while the other one works. */
const lanesCountSmall = 2;

async function run(sitting: Sitting): Promise<TierResult> {
  const only = process.env.LATCHKEY_PROOF_ONLY;
  const world = await openWorld();
  try {
    const lanes = await openLanes(world, only === undefined ? lanesCount(sitting) : 1);
    if (only !== undefined) return await runOnly(sitting, world, lanes, only);
    const found = await failing(sitting, 0, () => findDeaths(lanes, world, chosen(sitting)));
    return await runFound(sitting, world, lanes, found);
  } finally {
    await world.close();
  }
}

function lanesCount({ volume }: Sitting): number {
  return volume === "small" ? lanesCountSmall : Math.max(lanesCountSmall, workersCount());
}

async function openLanes(world: World, count: number): Promise<readonly Lane[]> {
  const lanes: Lane[] = [];
  for (let index = 0; index < count; index++) lanes.push(await world.openLane(null));
  return lanes;
}

function failing<T>({ seed }: Sitting, after: number, act: () => Promise<T>): Promise<T> {
  return act().catch((cause: unknown) => {
    if (cause instanceof ProofFailure) throw cause;
    const only = cause instanceof DeathFailure ? ` --only "${cause.death}"` : "";
    const what = cause instanceof Error ? cause.message : String(cause);
    throw new ProofFailure(what, seed, `npm run prove -- --tier P5${only}`, { cause, after });
  });
}

const smallMode = "transaction that enqueues";

/** The test command runs one mode whole, and a part of another one that the seed chooses. */
function chosen({ volume, seed }: Sitting): readonly Mode[] {
  if (volume === "full") return modes;
  const whole = modes.filter(({ name }) => name === smallMode);
  return [...whole, drawFrom(seed).pick(families["operations in steps"] ?? [])];
}

/** Of the second mode every `smallStep`-th point. */
const smallStep = 5;

function partOf({ volume, seed }: Sitting, found: readonly Death[]): readonly Death[] {
  if (volume === "full") return found;
  const whole = found.filter(({ mode }) => mode.name === smallMode);
  const other = found.filter(({ mode }) => mode.name !== smallMode);
  const first = drawFrom(seed).below(smallStep);
  return [...whole, ...other.filter((_, index) => index % smallStep === first)];
}

async function runFound(
  sitting: Sitting,
  world: World,
  lanes: readonly Lane[],
  found: readonly Death[],
): Promise<TierResult> {
  const { say, volume } = sitting;
  const deaths = partOf(sitting, found);
  for (const [mode, those] of Map.groupBy(deaths, (death) => death.mode))
    say(`${mode.name}: ${those.length} points`);
  const tally = new Tally(volume === "full" ? sitting.resume : null, deaths);
  await runAll(sitting, world, lanes, { deaths, tally });
  const isSmall = volume === "small";
  for (const mode of tally.finished) {
    if (isSmall && mode.name !== smallMode) continue;
    expectReached(
      tally.reachedIn(mode),
      mode.reaches,
      sitting.seed,
      `npm run prove -- --tier P5 --only "${mode.name}"`,
      tally.count,
    );
  }
  const planted = tally.isComplete && !isSmall ? await plantAll(sitting, world) : [];
  return resultOf(world, tally, { planted, deaths, isSmall });
}

const reportEvery = 200;

async function runAll(
  sitting: Sitting,
  world: World,
  lanes: readonly Lane[],
  { deaths, tally }: { readonly deaths: readonly Death[]; readonly tally: Tally },
): Promise<void> {
  const { say, untilMs } = sitting;
  const died = (one: Parameters<Tally["add"]>[0]) => {
    tally.add(one);
    if (tally.count % reportEvery === 0) say(`${tally.before + tally.count} of ${deaths.length} deaths`);
  };
  const left = deaths.slice(tally.before);
  await runDeaths(lanes, world, left, died, () => performance.now() < untilMs).catch((cause: unknown) =>
    failing(sitting, tally.count + 1, () => Promise.reject(cause)),
  );
}

/** Each mistake must be found. */
async function plantAll({ seed, say }: Sitting, world: World): Promise<readonly PlantedResult[]> {
  const planted: PlantedResult[] = [];
  for await (const { plant, after, message } of findPlanted(world)) {
    const found = after === null ? "not found" : `found after ${after}: ${message}`;
    say(`planted "${plant}": ${found}`);
    if (after === null) {
      const again = "npx vitest run test/proof/p5-kills";
      throw new ProofFailure(`planted and not found: ${plant}`, seed, again, { after: 1 });
    }
    planted.push({ name: `P5: ${plant}`, recreates: null, found: { P5: after } });
  }
  return planted;
}

/** One point, or all of one mode. */
async function runOnly(
  sitting: Sitting,
  world: World,
  lanes: readonly Lane[],
  only: string,
): Promise<TierResult> {
  const mode = modes.find(({ name }) => name === only);
  const deaths =
    mode === undefined
      ? [deathNamed(only)]
      : await failing(sitting, 0, () => findDeaths(lanes, world, [mode]));
  const tally = new Tally(null, deaths);
  await runAll(sitting, world, lanes, { deaths, tally });
  for (const [what, count] of Object.entries(tally.reached)) sitting.say(`${count} ${what}`);
  return resultOf(world, tally, { planted: [], deaths, isSmall: true });
}

function resultOf(
  { postgres }: World,
  tally: Tally,
  {
    planted,
    deaths,
    isSmall,
  }: {
    readonly planted: readonly PlantedResult[];
    readonly deaths: readonly Death[];
    readonly isSmall: boolean;
  },
): TierResult {
  const part = isSmall ? "a part of the calls" : "every call";
  const covered = Object.entries(families).flatMap(([name, those]): readonly Coverage[] => {
    const of = deaths.filter(({ mode }) => those.includes(mode)).length;
    if (of === 0) return [];
    const { count, isComplete } = tally.coverageOf(those);
    const bound = `${part} of ${those.length} modes × before, in flight at each write, late, after: ${of} points`;
    return [{ what: `deaths, ${name}`, bound, count, of: "all", complete: isComplete && !isSmall }];
  });
  return {
    covered,
    reached: tally.reached,
    faults: tally.faults,
    versions: { PostgreSQL: postgres.installation.fullVersion, Node: process.versions.node },
    notRun: [],
    planted,
    resume: tally.isComplete ? null : tally.left,
  };
}
