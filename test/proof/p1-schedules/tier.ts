/** P1: every schedule of the production code over the memory store, inside a bound. */
import { Worker } from "node:worker_threads";
import { expectReached, ProofFailure, type Sitting, type Tier, type TierResult } from "../harness/tier.ts";
import { type Progress, progressFrom, resultOf } from "./progress.ts";
import { required } from "./required.ts";
import { unitsOf } from "./units.ts";
import { type Failure, runOnly, type Unit, type UnitResult, unitName } from "./work.ts";

const threads = { small: 1, full: 2 } as const;
/** Of one thread, beside 16 to 40 bytes for each position. */
const memoryMb = { small: 3_000, full: 6_000 } as const;

export const tier: Tier = {
  id: "P1",
  run,
};

async function run(sitting: Sitting): Promise<TierResult> {
  const only = process.env.LATCHKEY_PROOF_ONLY;
  if (only !== undefined && only !== "") return runAgain(sitting, only);
  const progress = progressFrom(sitting.resume);
  await runAll(sitting, progress);
  const { volume, seed } = sitting;
  const result = resultOf(volume, progress);
  if (result.resume === null) {
    const all = result.covered.reduce((sum, { count }) => sum + count, 0);
    expectReached(progress.reached, required, seed, "npm run prove -- --tier P1", all);
  }
  return result;
}

async function runAgain({ seed, say }: Sitting, only: string): Promise<TierResult> {
  const { names, failure } = await runOnly(only);
  for (const name of names) say(name);
  if (failure !== null) throw proofFailure(seed, failure);
  const covered = [{ what: `schedule ${only} again`, bound: only, count: 1, of: 1, complete: true }];
  const nothing = { reached: {}, faults: {}, versions: {}, notRun: [], resume: null };
  return { ...nothing, covered };
}

async function runAll(sitting: Sitting, progress: Progress): Promise<void> {
  const { volume, untilMs, seed, say } = sitting;
  const waiting = unitsOf(volume).filter((unit) => !progress.isDone(unit));
  let failed: Failure | null = null;
  let walked = 0;
  const work = async (explore: (unit: Unit) => Promise<UnitResult>) => {
    while (failed === null && performance.now() < untilMs) {
      const unit = waiting.shift();
      if (unit === undefined) return;
      const beganMs = performance.now();
      const { explored, failure } = await explore(unit);
      if (explored === null) {
        failed ??= failure && { ...failure, after: walked + failure.after };
        return;
      }
      walked += explored.walked;
      const seconds = ((performance.now() - beganMs) / 1_000).toFixed(1);
      const { schedules, positions, isWhole } = explored;
      const counted = schedules === null ? "" : `${schedules} schedules, `;
      const how = isWhole ? `${counted}${positions} positions` : `stopped at ${positions} positions`;
      say(`${unitName(unit)}: ${how}, ${seconds} s`);
      progress.add(unit, explored);
      const soFar = resultOf(volume, progress);
      // The last one is not the end: what must be reached is looked at first.
      if (soFar.resume !== null) sitting.keep?.(soFar);
    }
  };
  await Promise.all(Array.from({ length: threads[volume] }, () => withThread(volume, work)));
  if (failed !== null) throw proofFailure(seed, failed);
}

/** Of a large unit nothing is to be left in memory for the next one. */
async function withThread(
  volume: Sitting["volume"],
  work: (explore: (unit: Unit) => Promise<UnitResult>) => Promise<void>,
): Promise<void> {
  let thread = startThread(volume);
  try {
    await work(async (unit) => {
      const result = await answerOf(thread, unit);
      if (volume === "small") return result;
      await thread.terminate();
      thread = startThread(volume);
      return result;
    });
  } finally {
    await thread.terminate();
  }
}

function startThread(volume: Sitting["volume"]): Worker {
  const url = new URL("./explore-worker-process.ts", import.meta.url);
  const resourceLimits = { maxOldGenerationSizeMb: memoryMb[volume], maxYoungGenerationSizeMb: 96 };
  return new Worker(url, { resourceLimits });
}

function answerOf(thread: Worker, unit: Unit): Promise<UnitResult> {
  const { promise, resolve, reject } = Promise.withResolvers<UnitResult>();
  const fail = (error: unknown) => reject(new Error(`${unitName(unit)}: ${String(error)}`, { cause: error }));
  thread.once("message", resolve);
  thread.once("error", fail);
  thread.postMessage(unit);
  return promise.finally(() => {
    thread.off("message", resolve);
    thread.off("error", fail);
  });
}

export function proofFailure(seed: bigint, { what, only, names, after }: Failure): ProofFailure {
  const schedule = names.map((name) => `    ${name}`).join("\n");
  const again = `npm run prove -- --tier P1 --only ${only}`;
  return new ProofFailure(`${what}\n  schedule:\n${schedule}`, seed, again, { after });
}
