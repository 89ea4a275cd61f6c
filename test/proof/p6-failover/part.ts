/** The failover half of P6: what real servers, real networks and real disks do to answers that were given. */
import { ProofFailure, type Sitting, type TierResult } from "../harness/tier.ts";
import type { Part } from "../p6-soak/part.ts";
import { asyncFailover } from "./async-failover.ts";
import { clockJumps } from "./clock-jumps.ts";
import { diskFull } from "./disk-full.ts";
import { exhaustion } from "./exhaustion.ts";
import { lazyCommit } from "./lazy-commit.ts";
import { plantedMistakes, plantedResults } from "./planted.ts";
import { pooler } from "./pooler.ts";
import { added, type Counts, type Section, type Stage, type Tally } from "./section.ts";
import { syncFailover } from "./sync-failover.ts";

const sections: readonly Section[] = [
  plantedMistakes,
  syncFailover,
  asyncFailover,
  lazyCommit,
  diskFull,
  clockJumps,
  pooler,
  exhaustion,
];

/** What is carried from sitting to sitting, for each section. */
interface Progress {
  readonly done: number;
  readonly faults: Counts;
  readonly reached: Counts;
  readonly sums: Counts;
}

type Resume = Readonly<Record<string, Progress>>;

const begun: Progress = { done: 0, faults: {}, reached: {}, sums: {} };

/** What a reproduction names: `failover:<section>:<run>`. */
const only = /^failover:([a-z-]+):(\d+)$/;

export const failover: Part = {
  name: "failover",
  async run(sitting: Sitting): Promise<TierResult> {
    const wanted = process.env.LATCHKEY_PROOF_ONLY ?? "";
    const [, id, run] = only.exec(wanted) ?? [];
    if (wanted !== "" && id === undefined) return resultOf(sitting, []);
    const chosen = id === undefined ? sections : sections.filter((section) => section.id === id);
    if (chosen.length === 0) throw new TypeError(`there is no section ${id} in the failover part of P6`);
    const sat: Sat[] = [];
    for (const section of chosen) {
      sat.push(await sit(section, sitting, run === undefined ? null : Number(run)));
    }
    return resultOf(sitting, sat);
  },
};

/** What became of one section in this sitting. */
interface Sat {
  readonly section: Section;
  readonly before: Progress;
  readonly now: Progress;
  readonly complete: boolean;
  readonly versions: Readonly<Record<string, string>>;
  readonly notRun: string | null;
}

async function sit(section: Section, sitting: Sitting, single: number | null): Promise<Sat> {
  const before = (sitting.resume as Resume | null)?.[section.id] ?? begun;
  const end = sitting.volume === "full" ? section.runs : section.small;
  const numbers = single === null ? numbersFrom(before.done, end) : [single];
  const idle = { section, before, now: before, complete: before.done >= end, versions: {}, notRun: null };
  if (numbers.length === 0 || performance.now() >= sitting.untilMs) return idle;
  const stage = await section.open(sitting.seed);
  if ("notRun" in stage) return { ...idle, complete: false, notRun: stage.notRun };
  const now = await runAll(section, stage, numbers, sitting, before);
  const complete = single === null && now.done >= end;
  if (complete) expectAll(section, now, sitting);
  return { section, before, now, complete, versions: await section.versions(), notRun: null };
}

function numbersFrom(first: number, end: number): readonly number[] {
  return Array.from({ length: Math.max(0, end - first) }, (_, index) => first + index);
}

async function runAll(
  section: Section,
  stage: Stage,
  numbers: readonly number[],
  sitting: Sitting,
  before: Progress,
): Promise<Progress> {
  let now = before;
  for (const number of numbers) {
    if (performance.now() >= sitting.untilMs) break;
    const beganMs = performance.now();
    const tally = await repeatable(section, number, sitting, now.done + 1, () => stage.run(number));
    now = after(now, tally);
    const seconds = ((performance.now() - beganMs) / 1_000).toFixed(1);
    sitting.say(`failover:${section.id}:${number} of ${section.runs}, ${seconds} s`);
  }
  await repeatable(section, numbers[0] ?? 0, sitting, now.done, () => stage.close());
  return now;
}

function after(progress: Progress, { faults, reached, sums }: Tally): Progress {
  return {
    done: progress.done + 1,
    faults: added(progress.faults, faults),
    reached: added(progress.reached, reached),
    sums: added(progress.sums, sums),
  };
}

/** @throws {ProofFailure} for whatever goes wrong, with the line that shows it again */
function repeatable<T>(
  section: Section,
  number: number,
  { seed }: Sitting,
  found: number,
  act: () => Promise<T>,
): Promise<T> {
  return act().catch((cause: unknown) => {
    const what = cause instanceof Error ? cause.message : String(cause);
    throw new ProofFailure(what, show(seed), reproduction(section, number, seed), { cause, after: found });
  });
}

function show(seed: bigint): string {
  return `0x${seed.toString(16)}`;
}

function reproduction({ id }: Section, number: number, seed: bigint): string {
  return `npm run prove -- --tier P6 --seed ${show(seed)} --only failover:${id}:${number}`;
}

/** A fault that never took place, or a state that was never reached, shows nothing. */
function expectAll(section: Section, { done, faults, reached }: Progress, { seed }: Sitting): void {
  const missing = [
    ...section.requiredFaults.filter((kind) => !((faults[kind] ?? 0) > 0)),
    ...section.requiredReached.filter((what) => !((reached[what] ?? 0) > 0)),
  ];
  if (missing.length === 0) return;
  const what = `${section.what}: never reached: ${missing.join(", ")}`;
  throw new ProofFailure(what, show(seed), reproduction(section, 0, seed), { after: done });
}

function resultOf({ volume }: Sitting, sat: readonly Sat[]): TierResult {
  const all = (of: (one: Sat) => Counts) => sat.map(of).reduce(added, {});
  const left = sat.filter(({ complete, notRun }) => !complete && notRun === null);
  const covered = sat.map(({ section, before, now, complete }) => ({
    what: section.what,
    bound: section.bound,
    count: now.done - before.done,
    of: volume === "full" ? section.runs : section.small,
    complete,
  }));
  return {
    covered: covered.filter(({ of }) => of > 0),
    reached: all(({ before, now }) => gained(before.reached, now.reached)),
    faults: all(({ before, now }) => gained(before.faults, now.faults)),
    versions: Object.assign({}, ...sat.map(({ versions }) => versions)),
    notRun: sat.flatMap(({ section, notRun }) =>
      notRun === null ? [] : [{ what: section.what, reason: notRun }],
    ),
    planted: sat.some(({ section, now }) => section === plantedMistakes && now.done > 0)
      ? plantedResults
      : [],
    measured: sat.flatMap(({ section, now }) => (now.done > 0 ? section.measured(now.sums, now.done) : [])),
    resume: left.length === 0 ? null : Object.fromEntries(sat.map(({ section, now }) => [section.id, now])),
  };
}

function gained(before: Counts, now: Counts): Counts {
  return Object.fromEntries(Object.entries(now).map(([what, count]) => [what, count - (before[what] ?? 0)]));
}
