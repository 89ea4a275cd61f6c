/** docs/proof.json: what each tier has shown on which code, added up over its sittings. */
import type { Coverage, PlantedResult, TierId, TierResult } from "./harness/tier.ts";
import type { ProveOptions } from "./options.ts";

/** The code that was run. */
export interface Source {
  /** SHA-256 over the sources and SQL that the tier runs. */
  readonly digest: string;
  /** The commit it was checked out at; null outside a repository. */
  readonly commit: string | null;
}

export interface TierEntry {
  readonly source: Source;
  readonly covered: readonly Coverage[];
  readonly reached: Readonly<Record<string, number>>;
  readonly faults: Readonly<Record<string, number>>;
  readonly versions: Readonly<Record<string, string>>;
  readonly notRun: TierResult["notRun"];
  readonly notShown: readonly string[];
  readonly planted: readonly PlantedResult[];
  readonly measured: readonly string[];
  readonly sittings: readonly { readonly date: string; readonly minutes: number; readonly seed: string }[];
  readonly resume: unknown;
}

/** A defect that a tier found, and the test that keeps it from coming back. Written by hand. */
export interface Finding {
  readonly tier: TierId | "review";
  readonly what: string;
  readonly test: string;
}

export interface Ledger {
  readonly machine: string;
  readonly tiers: Readonly<Partial<Record<TierId, TierEntry>>>;
}

export interface SittingFacts {
  readonly date: string;
  readonly minutes: number;
  readonly seed: string;
}

/** Adds a sitting. What was shown on other code does not count any more: it starts anew. */
export function withSitting(
  before: TierEntry | undefined,
  source: Source,
  result: TierResult,
  facts: SittingFacts,
): TierEntry {
  const same = before?.source.digest === source.digest ? before : undefined;
  return {
    source,
    covered: addCoverage(same?.covered ?? [], result.covered),
    reached: addCounts(same?.reached ?? {}, result.reached),
    faults: addCounts(same?.faults ?? {}, result.faults),
    versions: { ...same?.versions, ...result.versions },
    notRun: result.notRun,
    notShown: result.notShown,
    planted: mergePlanted(same?.planted ?? [], result.planted ?? []),
    measured: result.measured ?? same?.measured ?? [],
    sittings: [...(same?.sittings ?? []), facts],
    resume: result.resume,
  };
}

/**
 * Where a sitting goes on. A small volume, or one schedule again, is whole by itself: it would find nothing, if it went on
 * where the full one has ended long after.
 */
export function resumeOf(
  before: TierEntry | undefined,
  source: Source,
  { volume, only }: Pick<ProveOptions, "volume" | "only">,
): unknown {
  const goesOn = volume === "full" && only === null && before?.source.digest === source.digest;
  return goesOn ? before.resume : null;
}

/** Whether everything that a tier set out to cover has been covered. */
export function isComplete({ covered }: TierEntry): boolean {
  return covered.length > 0 && covered.every(({ complete }) => complete);
}

function addCoverage(before: readonly Coverage[], more: readonly Coverage[]): readonly Coverage[] {
  const all = new Map(before.map((one) => [keyOf(one), one]));
  for (const one of more) {
    const earlier = all.get(keyOf(one));
    const count = (earlier?.count ?? 0) + one.count;
    const complete =
      one.complete || earlier?.complete === true || (typeof one.of === "number" && count >= one.of);
    all.set(keyOf(one), { ...one, count, complete });
  }
  return [...all.values()];
}

function keyOf({ what, bound }: Coverage): string {
  return JSON.stringify([what, bound]);
}

function addCounts(
  before: Readonly<Record<string, number>>,
  more: Readonly<Record<string, number>>,
): Record<string, number> {
  const sum = { ...before };
  for (const [what, count] of Object.entries(more)) sum[what] = (sum[what] ?? 0) + count;
  return sum;
}

function mergePlanted(
  before: readonly PlantedResult[],
  more: readonly PlantedResult[],
): readonly PlantedResult[] {
  const all = new Map(before.map((one) => [one.name, one]));
  for (const one of more) {
    all.set(one.name, { ...one, found: { ...all.get(one.name)?.found, ...one.found } });
  }
  return [...all.values()];
}
