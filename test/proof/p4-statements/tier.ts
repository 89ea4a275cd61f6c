/** P4: every order of the statements of real Postgres sessions. */
import { installedVersions, type PostgresVersion } from "../../support/postgres-binaries.ts";
import type { PrivatePostgres } from "../../support/private-postgres.ts";
import {
  type Coverage,
  expectReached,
  type PlantedResult,
  ProofFailure,
  type Sitting,
  type Tier,
  type TierResult,
} from "../harness/tier.ts";
import { plants } from "./plants.ts";
import { ownDeadlocks } from "./play.ts";
import { reachedAlways, reachedOften } from "./required.ts";
import { scenarioNamed, scenarios } from "./scenarios.ts";
import { Tally } from "./tally.ts";
import {
  atBeginning,
  findPlant,
  laneOf,
  nameOf,
  type Plan,
  type Progress,
  runOnly,
  smallWholes,
  startServer,
  Work,
  wholes,
} from "./work.ts";

export const tier: Tier = {
  id: "P4",
  run,
};

const wanted: readonly PostgresVersion[] = [15, 17, 18];
const volumes = { small: 300, full: 10_000 } as const;
const lanes = {
  small: ["read committed", "repeatable read", "serializable"],
  full: ["read committed", "read committed", "repeatable read", "serializable"],
} as const satisfies Record<Sitting["volume"], Plan["lanes"]>;
/** From so many on everything must have been met. Those of which every one is run, first, are of few scenarios. */
const manyDrawn = 3_000;
const plantRunsMax = 400;

type ByVersion = Readonly<Record<string, Progress>>;

async function run(sitting: Sitting): Promise<TierResult> {
  const only = process.env.LATCHKEY_PROOF_ONLY;
  if (only !== undefined && only !== "") return again(sitting, only);
  const begun = (sitting.resume ?? {}) as ByVersion;
  const found = installedVersions();
  const versions = sitting.volume === "small" ? found.slice(-1) : wanted.filter((one) => found.includes(one));
  const results: Part[] = [];
  for (const [index, version] of versions.entries()) {
    // A sitting's time is shared evenly; what a server leaves is the others'.
    const nowMs = performance.now();
    const untilMs = nowMs + (sitting.untilMs - nowMs) / (versions.length - index);
    const part = await partOf({ ...sitting, untilMs }, version, begun[version] ?? atBeginning);
    results.push(part);
  }
  return resultOf(
    sitting,
    results,
    wanted.filter((one) => !found.includes(one)),
  );
}

/** What a sitting did on one server. */
interface Part {
  readonly version: PostgresVersion;
  readonly fullVersion: string;
  readonly before: Progress;
  readonly after: Progress;
  readonly tally: Tally;
  readonly played: number;
  readonly diverged: number;
  readonly planted: readonly PlantedResult[];
}

async function partOf(sitting: Sitting, version: PostgresVersion, before: Progress): Promise<Part> {
  const { volume, seed, untilMs, say } = sitting;
  const plan: Plan = {
    version,
    seed,
    untilMs,
    drawn: volumes[volume],
    wholes: volume === "small" ? smallWholes : wholes,
    from: before,
    lanes: lanes[volume],
    say,
  };
  const work = new Work(plan);
  const server = await startServer(version);
  try {
    await work.run(server);
    const isFirst = volume === "full" && sitting.resume === null && version === wanted.at(-1);
    const planted = isFirst ? await plantedResults(sitting, server) : [];
    const { tally, played, diverged, progress } = work;
    const { fullVersion } = server.installation;
    return { version, fullVersion, before, after: progress, tally, played, diverged, planted };
  } finally {
    await server.stop();
  }
}

/** @throws {ProofFailure} when one is not found */
async function plantedResults(
  { seed, untilMs }: Sitting,
  server: PrivatePostgres,
): Promise<readonly PlantedResult[]> {
  const results: PlantedResult[] = [];
  for (const [index, plant] of plants.entries()) {
    if (performance.now() >= untilMs) break;
    const lane = await laneOf(plant, server, 100 + index);
    const found = await findPlant(lane, scenarioNamed(plant.scenario), plant.faults, plantRunsMax);
    if (found === null) {
      const again = "npx vitest run test/proof/p4-statements";
      throw new ProofFailure(`not found: ${plant.name}`, seed, again, { after: plantRunsMax });
    }
    const { name, recreates } = plant;
    results.push({ name: `${name} (in its statement)`, recreates, found: { P4: found.after } });
    await lane.close();
  }
  return results;
}

async function again(sitting: Sitting, only: string): Promise<TierResult> {
  const count = await runOnly(only);
  sitting.say(`nothing wrong in ${count} repetitions of ${only}`);
  const covered = { what: "repetitions", bound: only, count, of: count, complete: true };
  const rest = { reached: {}, faults: {}, versions: {}, notRun: [] };
  return { ...rest, covered: [covered], resume: null };
}

function resultOf(sitting: Sitting, parts: readonly Part[], missing: readonly PostgresVersion[]): TierResult {
  const tally = new Tally();
  for (const part of parts) tally.add(part.tally);
  const counts = tally.all();
  const played = parts.reduce((sum, part) => sum + part.played, 0);
  const line = `npm run prove -- --tier P4 --seed 0x${sitting.seed.toString(16)}`;
  if (sitting.volume === "small" && played >= volumes.small)
    expectReached(counts, reachedAlways, sitting.seed, line, played);
  const drawn = parts.reduce((sum, { before, after }) => sum + after.drawn - before.drawn, 0);
  if (drawn >= manyDrawn)
    expectReached(counts, [...reachedAlways, ...reachedOften], sitting.seed, line, played);
  const covered = parts.flatMap((part) => coverageOf(sitting, part));
  return {
    covered,
    reached: Object.fromEntries([...reachedAlways, ...reachedOften].map((what) => [what, counts[what] ?? 0])),
    faults: counted(counts, "fault "),
    versions: Object.fromEntries(parts.map((part) => [`PostgreSQL ${part.version}`, part.fullVersion])),
    notRun: missing.map((version) => ({ what: `PostgreSQL ${version}`, reason: "not installed" })),
    planted: parts.flatMap(({ planted }) => planted),
    measured: measuredOf(counts, parts),
    resume: covered.every(({ complete }) => complete)
      ? null
      : Object.fromEntries(parts.map(({ version, after }) => [version, after])),
  };
}

function coverageOf({ volume }: Sitting, { version, before, after }: Part): readonly Coverage[] {
  const list = volume === "small" ? smallWholes : wholes;
  const count = (progress: Progress) =>
    Object.values(progress.wholes).reduce((sum, whole) => sum + whole.count, 0);
  return [
    {
      what: `interleavings drawn, PostgreSQL ${version}`,
      bound: `${scenarios.length} scenarios at three isolation levels, at most one accident`,
      count: after.drawn - before.drawn,
      of: volumes[volume],
      complete: after.drawn >= volumes[volume],
    },
    {
      what: `every interleaving of small scenarios, PostgreSQL ${version}`,
      bound: list.map(nameOf).join("; "),
      count: count(after) - count(before),
      of: "all",
      complete: list.every((whole) => after.wholes[nameOf(whole)]?.path === null),
    },
  ];
}

function counted(counts: Readonly<Record<string, number>>, prefix: string): Record<string, number> {
  const some = Object.entries(counts).filter(([what]) => what.startsWith(prefix));
  return Object.fromEntries(some.map(([what, count]) => [what.slice(prefix.length), count]));
}

function measuredOf(counts: Readonly<Record<string, number>>, parts: readonly Part[]): readonly string[] {
  const waited = Object.entries(counted(counts, "blocked in ")).map(([what, count]) => `${what} ${count}`);
  const diverged = parts.reduce((sum, part) => sum + part.diverged, 0);
  return [
    `Steps that waited for a lock, by statement: ${waited.join(", ")}.`,
    `Deadlocks among Latchkey's own statements: ${counts[ownDeadlocks] ?? 0}; in handlers that cross each other: ${(counts["SQLSTATE 40P01"] ?? 0) - (counts[ownDeadlocks] ?? 0)}.`,
    `Repetitions in which the server let another of two waiting sessions go first: ${diverged}.`,
  ];
}
