/** Many sequences, one after the other, in one lane; the first failure is made small. */
import type { Lane } from "./lane.ts";
import { type Part, type PartName, partNamed, sequenceOf } from "./parts.ts";
import { shortest } from "./sequence.ts";

export interface Batch {
  readonly part: PartName;
  /** 64 bits. */
  readonly seed: bigint;
  /** Numbers of the sequences: from … to, without the last one. */
  readonly from: number;
  readonly to: number;
  /** Every so many sequences one is played twice. */
  readonly every: number;
  /** How many sequences may be played to make a failing one small; 0: it is shown as it is. */
  readonly shrinkTries: number;
  /** Nothing new is begun after this moment of `performance.timeOrigin + performance.now()`. */
  readonly untilMs: number;
}

export interface Failure {
  readonly run: number;
  readonly what: string;
  /** The shortest sequence that fails, to be read. */
  readonly lines: readonly string[];
}

export interface BatchResult {
  /** How many were played. */
  readonly played: number;
  readonly twice: number;
  readonly reached: Readonly<Record<string, number>>;
  readonly failure: Failure | null;
}

export const nothingPlayed: BatchResult = { played: 0, twice: 0, reached: {}, failure: null };

export async function runBatch(lane: Lane, batch: Batch): Promise<BatchResult> {
  const { seed, from, to, every, untilMs } = batch;
  const part = partNamed(batch.part);
  let total = nothingPlayed;
  for (let run = from; run < to && total.failure === null; run++) {
    if (performance.timeOrigin + performance.now() >= untilMs) break;
    total = sum(total, await runOne(lane, part, batch, { seed, run, isSample: run % every === 0 }));
  }
  return total;
}

interface One {
  readonly seed: bigint;
  readonly run: number;
  readonly isSample: boolean;
}

async function runOne(
  lane: Lane,
  part: Part,
  { shrinkTries }: Pick<Batch, "shrinkTries">,
  { seed, run, isSample }: One,
): Promise<BatchResult> {
  const sequence = sequenceOf(part, seed, run);
  const played = await part.play(lane, sequence);
  const result = { ...nothingPlayed, played: 1, reached: Object.fromEntries(played.reached) };
  if (played.broken !== null && played.isStuck) {
    return { ...result, failure: { run, what: played.broken, lines: played.lines } };
  }
  if (played.broken !== null) {
    const short = await shortest(sequence, (one) => part.play(lane, one), shrinkTries);
    const shown = await part.play(lane, short);
    const what = shown.broken ?? `${played.broken}\n  (it does not happen again)`;
    return { ...result, failure: { run, what, lines: shown.broken === null ? played.lines : shown.lines } };
  }
  if (!isSample) return result;
  const again = await part.play(lane, sequence);
  if (again.hash === played.hash) return { ...result, twice: 1 };
  const lines = again.lines.filter((line, place) => line !== played.lines[place]).slice(0, 4);
  return { ...result, failure: { run, what: "the same sequence has gone two ways", lines } };
}

/** Of two batches. */
export function sum(left: BatchResult, right: BatchResult): BatchResult {
  const reached = { ...left.reached };
  for (const [what, count] of Object.entries(right.reached)) reached[what] = (reached[what] ?? 0) + count;
  return {
    played: left.played + right.played,
    twice: left.twice + right.twice,
    reached,
    failure: left.failure ?? right.failure,
  };
}
