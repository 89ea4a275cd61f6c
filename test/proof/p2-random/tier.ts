/** P2: random schedules of the production code over the memory store. */
import { setTimeout as startTimer } from "node:timers";
import { Worker } from "node:worker_threads";
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
import { type Batch, type BatchResult, type Failure, runOnly } from "./batch.ts";
import { plants } from "./plants.ts";
import { common, rare } from "./required.ts";

const volumes = { small: 3_000, full: 100_000_000 } as const;
const batchRuns = { small: 500, full: 2_000 } as const;
/** One run in so many is run twice, and one with and without a second tenant. */
const sampleEvery = { small: 16, full: 64 } as const;
const shrinkTries = 1_500;
/** From so many on, what is rare must have been reached. */
const manyRuns = 100_000;
const plantRunsMax = 20_000;
/** A batch takes seconds. */
const batchLimitMs = 600_000;

const bound =
  "2 to 6 requests with 2 bodies and 2 principals for 1 to 4 keys of 2 tenants, 1 or 2 operations, 2 processes; up to " +
  "6 faults, 5 leaps of time and 12 services; up to 70 steps, then calm";

export const tier: Tier = {
  id: "P2",
  run,
};

async function run(sitting: Sitting): Promise<TierResult> {
  const only = process.env.LATCHKEY_PROOF_ONLY;
  if (only !== undefined && only !== "") return runAgain(sitting, only);
  const { seed, volume } = sitting;
  const begun = doneBefore(sitting.resume);
  // First: a sitting ends when its time is over.
  const planted = volume === "full" && begun === 0 ? await findPlants(sitting) : [];
  const total = await runAll(sitting, begun);
  const again = `npm run prove -- --tier P2 --seed 0x${seed.toString(16)}`;
  const { schedules, reached } = total;
  if (schedules >= volumes.small) expectReached(reached, common, seed, again, schedules);
  if (schedules >= manyRuns) expectReached(reached, rare, seed, again, schedules);
  const isDone = begun + total.schedules >= volumes[volume];
  return {
    covered: coverageOf(total, volumes[volume], sampleEvery[volume], isDone),
    reached: total.reached,
    faults: total.faults,
    versions: { node: process.versions.node },
    notRun: [],
    planted,
    resume: isDone ? null : { schedules: begun + total.schedules },
  };
}

function doneBefore(resume: unknown): number {
  if (typeof resume !== "object" || resume === null || !("schedules" in resume)) return 0;
  return Number(resume.schedules);
}

function coverageOf(total: BatchResult, of: number, every: number, complete: boolean): readonly Coverage[] {
  const twice = "of these schedules, run twice with the same trace hash";
  const pairs = "schedules with and without a second tenant, whose first tenant observes the same";
  return [
    { what: "random schedules", bound, count: total.schedules, of, complete },
    { what: twice, bound, count: total.twice, of: Math.floor(of / every), complete },
    { what: pairs, bound, count: total.pairs, of: Math.floor(of / every), complete },
  ];
}

async function runAgain({ seed }: Sitting, only: string): Promise<TierResult> {
  const failure = await runOnly(seed, only);
  if (failure !== null) throw proofFailure(seed, failure, 1);
  const covered = [{ what: `run ${only} again`, bound, count: 1, of: 1, complete: true }];
  const nothing = { reached: {}, faults: {}, versions: {}, notRun: [], resume: null };
  return { ...nothing, covered };
}

async function runAll({ volume, untilMs, seed, say }: Sitting, begun: number): Promise<BatchResult> {
  const threads = volume === "small" ? 1 : workersCount();
  let next = begun;
  let saidAtMs = performance.now();
  let total: BatchResult = { schedules: 0, twice: 0, pairs: 0, reached: {}, faults: {}, failure: null };
  await withThreads(threads, async (work) => {
    while (next < volumes[volume] && performance.now() < untilMs && total.failure === null) {
      const from = next;
      next = Math.min(volumes[volume], from + batchRuns[volume]);
      const every = sampleEvery[volume];
      const result = await work({ seed, from, to: next, every, plant: null, shrinkTries });
      // Not before: others have added theirs meanwhile.
      total = added(total, result);
      if (performance.now() - saidAtMs < 60_000) continue;
      saidAtMs = performance.now();
      say(`${begun + total.schedules} schedules`);
    }
  });
  if (total.failure !== null) throw proofFailure(seed, total.failure, total.schedules + 1);
  return total;
}

/** How many schedules it takes to find each planted mistake. */
async function findPlants({ seed, untilMs, say }: Sitting): Promise<readonly PlantedResult[]> {
  const found: PlantedResult[] = [];
  await withThreads(1, async (work) => {
    for (const name of Object.keys(plants)) {
      if (performance.now() >= untilMs) return;
      const batch = { seed, from: 0, to: plantRunsMax, every: sampleEvery.full, plant: name, shrinkTries: 0 };
      const { failure } = await work(batch);
      const schedules = failure === null ? null : Number(failure.only.replace("pair:", "")) + 1;
      found.push({ name, recreates: null, found: { P2: schedules } });
      say(
        `planted: ${name}: ${failure === null ? "not found" : `${failure.invariant} in schedule ${schedules}`}`,
      );
    }
  });
  return found;
}

type Work = (batch: Batch) => Promise<BatchResult>;

/** Runs `use` once for each thread, all at the same time. */
async function withThreads(count: number, use: (work: Work) => Promise<void>): Promise<void> {
  const url = new URL("./schedule-worker-process.ts", import.meta.url);
  // Most of what a schedule makes is soon gone.
  const resourceLimits = { maxYoungGenerationSizeMb: 96 };
  const threads = Array.from({ length: count }, () => new Worker(url, { resourceLimits }));
  try {
    await Promise.all(threads.map((thread) => use((batch) => answerOf(thread, batch))));
  } finally {
    await Promise.all(threads.map((thread) => thread.terminate()));
  }
}

function answerOf(thread: Worker, batch: Batch): Promise<BatchResult> {
  const { promise, resolve, reject } = Promise.withResolvers<BatchResult>();
  const stuck = startTimer(() => {
    const what = `L1: one of the runs ${batch.from} to ${batch.to - 1} does not end`;
    const again = reproduction(batch.seed, `${batch.from}`);
    reject(new ProofFailure(what, batch.seed, again, { after: batch.from }));
  }, batchLimitMs);
  thread.once("message", resolve);
  thread.once("error", reject);
  thread.postMessage(batch);
  return promise.finally(() => {
    clearTimeout(stuck);
    thread.off("message", resolve);
    thread.off("error", reject);
  });
}

function added(left: BatchResult, right: BatchResult): BatchResult {
  return {
    schedules: left.schedules + right.schedules,
    twice: left.twice + right.twice,
    pairs: left.pairs + right.pairs,
    reached: sum(left.reached, right.reached),
    faults: sum(left.faults, right.faults),
    failure: left.failure ?? right.failure,
  };
}

function sum(
  left: Readonly<Record<string, number>>,
  right: Readonly<Record<string, number>>,
): Record<string, number> {
  const all = { ...left };
  for (const [what, count] of Object.entries(right)) all[what] = (all[what] ?? 0) + count;
  return all;
}

function reproduction(seed: bigint, only: string): string {
  return `npm run prove -- --tier P2 --seed 0x${seed.toString(16)} --only ${only}`;
}

/**
 * With the shortest schedule that does the same.
 *
 * @param after how many schedules it took
 */
export function proofFailure(seed: bigint, failure: Failure, after: number): ProofFailure {
  const { invariant, what, only, list, lines } = failure;
  const schedule =
    lines.length === 0 ? "" : `\n  shortest schedule:\n${lines.map((line) => `    ${line}`).join("\n")}`;
  const short = list.length === 0 ? "" : `\n  or its shortest: --only list:${list.join(",")}`;
  return new ProofFailure(
    `${invariant}: ${what}${schedule}${short}`,
    `0x${seed.toString(16)}`,
    reproduction(seed, only),
    { after },
  );
}
