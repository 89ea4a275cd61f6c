/** Many schedules, one after the other, in one thread; the first failure is made small. */
import { drawFrom, seedOf } from "../harness/seeded.ts";
import { Choices } from "./choices.ts";
import { type Lists, runPair } from "./paired.ts";
import { plants } from "./plants.ts";
import type { Report, Violation } from "./report.ts";
import { runSchedule } from "./schedule.ts";
import { shrunk } from "./shrink.ts";
import type { WorldOptions } from "./world.ts";

export interface Batch {
  /** 64 bits. */
  readonly seed: bigint;
  /** Numbers of the runs: from … to, without the last one. */
  readonly from: number;
  readonly to: number;
  /** Every so many runs one is run twice, and one with and without a second tenant. */
  readonly every: number;
  /** Name of a planted mistake. */
  readonly plant: string | null;
  /** How many schedules may be run to make a failure small; 0: it is shown as it is. */
  readonly shrinkTries: number;
}

export interface BatchResult {
  /** How many schedules came to their end. */
  readonly schedules: number;
  readonly twice: number;
  readonly pairs: number;
  readonly reached: Readonly<Record<string, number>>;
  readonly faults: Readonly<Record<string, number>>;
  readonly failure: Failure | null;
}

export interface Failure extends Violation {
  /** What `--only` takes. */
  readonly only: string;
  /** As short as it could be made; empty where it is no list. */
  readonly list: readonly number[];
  /** The schedule, to be read. */
  readonly lines: readonly string[];
}

/** Others come to their turn after so many schedules. */
const turnRuns = 64;

export async function runBatch({ seed, from, to, every, plant, shrinkTries }: Batch): Promise<BatchResult> {
  const tally = new Tally();
  const options = optionsOf(plant);
  const stray = strayRejections();
  try {
    for (let run = from; run < to && tally.failure === null; run++) {
      const found = await runOne(seed, run, options, tally, run % every === 0);
      tally.failure = found && (await madeSmall(found, options, shrinkTries));
      if (run % turnRuns === turnRuns - 1 || run === to - 1) {
        await new Promise<void>((resolve) => setImmediate(resolve));
        tally.failure ??= stray.failure(`${run}`);
      }
    }
  } finally {
    stray.end();
  }
  return tally.result();
}

/** One run again, named as a failure names it. Null: nothing was wrong. */
export async function runOnly(seed: bigint, only: string): Promise<Failure | null> {
  const [kind, rest = ""] = only.split(":");
  if (kind === "pair") {
    const violation = await runPair(() => listsOf(seed, Number(rest)));
    return violation && { ...violation, only, list: [], lines: [] };
  }
  const list = kind === "list" ? rest.split(",").map(Number) : null;
  const choices = list === null ? drawn(seed, Number(only)) : Choices.given(list);
  const report = await runSchedule(choices, { readable: true });
  const { violation, trace } = report;
  return violation && { ...violation, only, list: choices.made, lines: trace.lines ?? [] };
}

export function optionsOf(plant: string | null): WorldOptions {
  const planted = plant === null ? undefined : plants[plant];
  if (plant !== null && planted === undefined) throw new TypeError(`There is no plant "${plant}"`);
  return planted === undefined ? {} : { plant: planted };
}

/** The hash of all that happens in a run. */
export async function traceOf(seed: bigint, run: number, options: WorldOptions): Promise<number> {
  const { trace } = await runSchedule(drawn(seed, run), options);
  return trace.hash;
}

function drawn(seed: bigint, run: number): Choices {
  return Choices.drawn(drawFrom(seedOf(seed, run)));
}

function listsOf(seed: bigint, run: number): Lists {
  const own = seedOf(seed, run);
  const list = (place: number) => Choices.drawn(drawFrom(seedOf(own, place)));
  return { config: list(1), order: list(2), a: list(3), b: list(4) };
}

async function runOne(
  seed: bigint,
  run: number,
  options: WorldOptions,
  tally: Tally,
  isSample: boolean,
): Promise<Failure | null> {
  const choices = drawn(seed, run);
  const report = await runSchedule(choices, options);
  tally.add(report);
  if (report.violation !== null) {
    return { ...report.violation, only: `${run}`, list: choices.made, lines: [] };
  }
  if (!isSample) return null;
  tally.twice += 1;
  if ((await traceOf(seed, run, options)) !== report.trace.hash) {
    const what = "the same seed has made two different traces";
    return { invariant: "determinism", what, only: `${run}`, list: [], lines: [] };
  }
  tally.pairs += 1;
  const violation = await runPair(() => listsOf(seed, run), options);
  return violation && { ...violation, only: `pair:${run}`, list: [], lines: [] };
}

/** The shortest list that breaks the same invariant. */
async function madeSmall(failure: Failure, options: WorldOptions, triesMax: number): Promise<Failure> {
  const { invariant, only } = failure;
  if (failure.list.length === 0) return failure;
  const list = await shrunk(
    failure.list,
    async (candidate) => {
      const choices = Choices.given(candidate);
      const { violation } = await runSchedule(choices, options);
      return violation?.invariant === invariant ? choices.made : null;
    },
    triesMax,
  );
  const { violation, trace } = await runSchedule(Choices.given(list), { ...options, readable: true });
  const shown = violation ?? { invariant, what: "it does not happen again" };
  return { ...shown, only, list, lines: trace.lines ?? [] };
}

class Tally {
  failure: Failure | null = null;
  twice = 0;
  pairs = 0;
  #schedules = 0;
  readonly #reached = new Map<string, number>();
  readonly #faults = new Map<string, number>();

  add({ reached, faults, violation }: Report): void {
    if (violation === null) this.#schedules += 1;
    for (const [what, count] of reached) this.#reached.set(what, (this.#reached.get(what) ?? 0) + count);
    for (const [what, count] of faults) this.#faults.set(what, (this.#faults.get(what) ?? 0) + count);
  }

  result(): BatchResult {
    return {
      schedules: this.#schedules,
      twice: this.twice,
      pairs: this.pairs,
      reached: Object.fromEntries(this.#reached),
      faults: Object.fromEntries(this.#faults),
      failure: this.failure,
    };
  }
}

/** A rejection that nobody takes would end a user's process. */
function strayRejections() {
  let met: unknown = null;
  const note = (error: unknown) => {
    met ??= error ?? "nothing";
  };
  process.on("unhandledRejection", note);
  return {
    end: () => void process.off("unhandledRejection", note),
    failure(only: string): Failure | null {
      if (met === null) return null;
      const what = `a rejection that nobody takes, in this run or one shortly before: ${String(met)}`;
      return { invariant: "L5", what, only, list: [], lines: [] };
    },
  };
}
