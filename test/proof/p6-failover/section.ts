/** One kind of trouble: so many runs of it, each of which can be shown again alone. */
import type { Violation } from "./judge.ts";

export type Counts = Readonly<Record<string, number>>;

/** What one run has seen. */
export interface Tally {
  readonly faults: Counts;
  readonly reached: Counts;
  /** Figures that are measured and not judged, to be added up. */
  readonly sums: Counts;
}

/** Where runs take place, one after the other. */
export interface Stage {
  /** @throws {Violated} */
  run(number: number): Promise<Tally>;
  close(): Promise<void>;
}

export interface Unable {
  readonly notRun: string;
}

export interface Section {
  readonly id: string;
  readonly what: string;
  readonly bound: string;
  /** In the full volume. */
  readonly runs: number;
  /** In the small one, from run 0. */
  readonly small: number;
  /** Reports what the seed and a run's number make of a run. */
  readonly requiredFaults: readonly string[];
  readonly requiredReached: readonly string[];
  /** For the versions of the report. */
  versions(): Promise<Readonly<Record<string, string>>>;
  open(seed: bigint): Promise<Stage | Unable>;
  /** Sentences with numbers, of all runs. */
  measured(sums: Counts, runs: number): readonly string[];
}

/** Something that must not be. */
export class Violated extends Error {
  override readonly name = "Violated";

  constructor(what: string, violations: readonly Violation[]) {
    super(
      [what, ...violations.slice(0, 10).map(({ invariant, seen }) => `${invariant}: ${seen}`)].join("\n  "),
    );
  }
}

/** @throws {Violated} when there are any */
export function expectNone(what: string, violations: readonly Violation[]): void {
  if (violations.length > 0) throw new Violated(what, violations);
}

export function added(left: Counts, right: Counts): Counts {
  const sum: Record<string, number> = { ...left };
  for (const [what, count] of Object.entries(right)) sum[what] = (sum[what] ?? 0) + count;
  return sum;
}
