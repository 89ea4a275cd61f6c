/** P3: the same sequences on every store. */
import { availableParallelism } from "node:os";
import { installedVersions } from "../../support/postgres-binaries.ts";
import { startPostgres } from "../../support/private-postgres.ts";
import {
  type Coverage,
  expectReached,
  type PlantedResult,
  ProofFailure,
  type Sitting,
  type Tier,
  type TierResult,
} from "../harness/tier.ts";
import { type Batch, type BatchResult, type Failure, nothingPlayed, runBatch, sum } from "./batch.ts";
import type { Place } from "./bench.ts";
import { Lane } from "./lane.ts";
import { inThreads } from "./lanes.ts";
import { type Part, type PartName, partNamed, parts } from "./parts.ts";
import { findPlant, plants } from "./plants.ts";
import { stores } from "./stores.ts";

const batchRuns = 50;
/** One sequence in so many is played twice. */
const sampleEvery = { small: 10, full: 50 } as const;
const shrinkTries = 800;
const lanesMax = 4;
const plantRunsMax = 2_000;
/** From so many on everything must have been met. */
const manyPlayed = 5_000;
/** The same sequences in every sitting, so that what they reach does not depend on what was drawn. */
const fixedSeed = 0x5eed_0003n;
const fixedMax = 300;
/** Nothing is lost that a proof needs: the server is thrown away. */
const conf = { autovacuum: false, shared_buffers: "32MB", max_connections: 100 };

export const tier: Tier = {
  id: "P3",
  run,
};

/** Sequences that sittings before this one have played. */
type Done = Readonly<Partial<Record<PartName, number>>>;

async function run(sitting: Sitting): Promise<TierResult> {
  const only = process.env.LATCHKEY_PROOF_ONLY;
  const [version] = installedVersions().slice(-1);
  const server = version === undefined ? null : await startPostgres({ version, conf });
  const place: Place = { lane: 0, postgres: server && { ...server.connection, host: server.socketDir } };
  const lane = await Lane.open(stores, place);
  const versions = Object.fromEntries(lane.benches.map(({ name, version }) => [name, version]));
  try {
    if (only !== undefined && only !== "") return await again(sitting, lane, only);
    const result = await runParts(sitting, place, lane);
    return { ...result, versions };
  } finally {
    await lane.close();
    await server?.stop();
  }
}

async function runParts(sitting: Sitting, place: Place, lane: Lane): Promise<Omit<TierResult, "versions">> {
  const { volume, seed } = sitting;
  const before = (sitting.resume ?? {}) as Done;
  const done: Partial<Record<PartName, number>> = { ...before };
  const covered: Coverage[] = [];
  const reached: Record<string, number> = {};
  for (const [index, part] of parts.entries()) {
    const begun = before[part.name] ?? 0;
    // A sitting's time is shared evenly; what a part leaves is the others'.
    const nowMs = performance.now();
    const untilMs = nowMs + (sitting.untilMs - nowMs) / (parts.length - index);
    const total =
      volume === "full"
        ? await inMany({ ...sitting, untilMs }, place, part, begun)
        : await runBatch(lane, batchOf(sitting, part, 0));
    if (total.failure !== null) throw failureOf(part, seed, total.failure, total.played);
    const again = `npm run prove -- --tier P3 --seed 0x${seed.toString(16)}`;
    const all =
      total.played < part.volumes.small ? total.reached : await withFixed(lane, part, total.reached);
    if (total.played >= part.volumes.small) expectReached(all, part.always, seed, again, total.played);
    if (total.played >= manyPlayed) expectReached(total.reached, part.often, seed, again, total.played);
    for (const [what, count] of Object.entries(all)) reached[`${part.name}: ${what}`] = count;
    done[part.name] = begun + total.played;
    covered.push(...coverageOf(part, volume, total, begun + total.played));
  }
  const planted = volume === "full" && sitting.resume === null ? await plantedResults(seed) : [];
  return {
    covered,
    reached,
    faults: {},
    notRun: place.postgres === null ? [{ what: "postgres", reason: "not installed" }] : [],
    planted,
    resume: covered.every(({ complete }) => complete) ? null : done,
  };
}

/**
 * Plays fixed sequences until everything that any sitting must reach has been reached: a few dozen drawn ones may miss some
 * of it by chance.
 */
export async function withFixed(
  lane: Lane,
  part: Part,
  reached: BatchResult["reached"],
): Promise<BatchResult["reached"]> {
  let total: BatchResult = { ...nothingPlayed, reached };
  for (let run = 0; run < fixedMax && part.always.some((what) => !total.reached[what]); run++) {
    const batch = { part: part.name, seed: fixedSeed, from: run, to: run + 1, every: sampleEvery.small };
    const one = await runBatch(lane, { ...batch, shrinkTries, untilMs: Number.POSITIVE_INFINITY });
    if (one.failure !== null) throw failureOf(part, fixedSeed, one.failure, run + 1);
    total = sum(total, one);
  }
  return total.reached;
}

function coverageOf(
  { name, bound, volumes }: Part,
  volume: Sitting["volume"],
  { played, twice }: BatchResult,
  done: number,
): readonly Coverage[] {
  const of = volumes[volume];
  const complete = done >= of;
  return [
    { what: `sequences of ${name}`, bound: `${bound}; ${stores.length} stores`, count: played, of, complete },
    {
      what: `of these sequences of ${name}, played twice with the same hash`,
      bound,
      count: twice,
      of: Math.floor(of / sampleEvery[volume]),
      complete,
    },
  ];
}

function batchOf({ seed, volume, untilMs }: Sitting, part: Part, from: number): Batch {
  const to = Math.min(part.volumes[volume], from + (volume === "small" ? part.volumes.small : batchRuns));
  const every = sampleEvery[volume];
  return {
    part: part.name,
    seed,
    from,
    to,
    every,
    shrinkTries,
    untilMs: performance.timeOrigin + untilMs,
  };
}

/** Each lane has a core for itself, and the servers need some, too. */
async function inMany(
  sitting: Sitting,
  { postgres }: Place,
  part: Part,
  begun: number,
): Promise<BatchResult> {
  let from = begun;
  let reportedMs = performance.now();
  const next = (): Batch | null => {
    if (from >= part.volumes.full || performance.now() >= sitting.untilMs) return null;
    const batch = batchOf(sitting, part, from);
    from = batch.to;
    return batch;
  };
  const report = ({ played }: BatchResult) => {
    if (performance.now() - reportedMs < 60_000) return;
    reportedMs = performance.now();
    sitting.say(`${begun + played} sequences of ${part.name}`);
  };
  if (begun >= part.volumes.full) return nothingPlayed;
  return inThreads(Math.min(lanesMax, availableParallelism()), postgres, next, report);
}

async function plantedResults(seed: bigint): Promise<readonly PlantedResult[]> {
  const results: PlantedResult[] = [];
  for (const plant of plants) {
    const found = await findPlant(plant, seed, plantRunsMax);
    if (found === null) {
      const line = "npx vitest run test/proof/p3-stores";
      throw new ProofFailure(`not found: ${plant.name}`, seed, line, { after: plantRunsMax });
    }
    results.push({ name: plant.name, recreates: null, found: { P3: found.after } });
  }
  return results;
}

/** A sequence again, named as a failure names it. */
async function again(sitting: Sitting, lane: Lane, only: string): Promise<TierResult> {
  const { seed } = sitting;
  const [name = "", number = ""] = only.split(":");
  const [part, run] = [partNamed(name), Number(number)];
  const batch = { ...batchOf(sitting, part, run), to: run + 1, every: 1, untilMs: Number.POSITIVE_INFINITY };
  const { failure } = await runBatch(lane, batch);
  if (failure !== null) throw failureOf(part, seed, failure, 1);
  const covered = { what: `sequence ${only} again`, bound: part.bound, count: 1, of: 1, complete: true };
  const rest = { reached: {}, faults: {}, versions: {}, notRun: [], resume: null };
  return { ...rest, covered: [covered] };
}

/** @param after how many sequences it took */
export function failureOf(
  { name }: Part,
  seed: bigint,
  { what, lines, run }: Failure,
  after: number,
): ProofFailure {
  const shown = lines.map((line) => `    ${line}`).join("\n");
  const text = `the stores differ: ${what}\n  the shortest sequence:\n${shown}`;
  const hex = `0x${seed.toString(16)}`;
  const reproduce = `npm run prove -- --tier P3 --seed ${hex} --only ${name}:${run}`;
  return new ProofFailure(text, hex, reproduce, { after });
}
