/**
 * docs/proof.json: what each tier has shown, on which code, added up over its sittings. Evidence ages, it does not
 * die: a sitting on changed code begins a new entry, and those on earlier code stay.
 */
import type { Code } from "./code/closure.ts";
import type { Coverage, PlantedResult, TierId, TierResult } from "./harness/tier.ts";
import type { ProveOptions } from "./options.ts";

/** The code that was run. */
export interface Source {
  /** Null: evidence from before there were such digests, at a commit that is no longer there. */
  readonly code: Code | null;
  /** The commit it was checked out at, `-dirty` with changes; null outside a repository. */
  readonly commit: string | null;
}

/** A row and the commit at which it was reached last. */
export type At<T> = T & { readonly commit: string | null };

export interface TierEntry {
  readonly source: Source;
  readonly covered: readonly At<Coverage>[];
  readonly reached: Readonly<Record<string, number>>;
  readonly faults: Readonly<Record<string, number>>;
  readonly versions: Readonly<Record<string, string>>;
  readonly notRun: TierResult["notRun"];
  readonly planted: readonly At<PlantedResult>[];
  readonly measured: readonly string[];
  readonly sittings: readonly SittingFacts[];
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
  /** Oldest first: the last one is of the last sitting. */
  readonly tiers: Readonly<Partial<Record<TierId, readonly TierEntry[]>>>;
}

export interface SittingFacts {
  readonly date: string;
  readonly minutes: number;
  readonly seed: string;
}

export interface NewSitting {
  readonly source: Source;
  readonly result: TierResult;
  readonly facts: SittingFacts;
  /** Adds to nothing, also when there is evidence on the same code. */
  readonly anew?: boolean;
}

/** Adds a sitting to what the same code has shown, or as the first on its code. Nothing is discarded. */
export function withSitting(
  entries: readonly TierEntry[],
  { source, result, facts, anew = false }: NewSitting,
): readonly TierEntry[] {
  const same = anew ? undefined : entryOn(entries, source.code);
  const { commit } = source;
  const entry: TierEntry = {
    source,
    covered: addCoverage(same?.covered ?? [], result.covered, commit),
    reached: addCounts(same?.reached ?? {}, result.reached),
    faults: addCounts(same?.faults ?? {}, result.faults),
    versions: { ...same?.versions, ...result.versions },
    notRun: result.notRun,
    planted: mergePlanted(same?.planted ?? [], result.planted ?? [], commit),
    measured: result.measured ?? same?.measured ?? [],
    sittings: [...(same?.sittings ?? []), facts],
    resume: result.resume,
  };
  return [...entries.filter((one) => one !== same), entry];
}

/** What was shown on this very code: both digests are equal. A change that was taken back has its evidence again. */
export function entryOn(entries: readonly TierEntry[], code: Code | null): TierEntry | undefined {
  return entries.findLast(({ source }) => isSame(source.code, code));
}

function isSame(one: Code | null, other: Code | null): boolean {
  return one !== null && other !== null && one.library === other.library && one.harness === other.harness;
}

/**
 * Where a sitting goes on. A small volume, or one schedule again, is whole by itself: it would find nothing, if it went on
 * where the full one has ended long after.
 */
export function resumeOf(
  entries: readonly TierEntry[],
  { code }: Source,
  { volume, only, anew }: Pick<ProveOptions, "volume" | "only" | "anew">,
): unknown {
  const goesOn = volume === "full" && only === null && !anew;
  return goesOn ? (entryOn(entries, code)?.resume ?? null) : null;
}

/** Whether everything that a tier set out to cover has been covered. */
export function isComplete({ covered }: TierEntry): boolean {
  return covered.length > 0 && covered.every(({ complete }) => complete);
}

function addCoverage(
  before: readonly At<Coverage>[],
  more: readonly Coverage[],
  commit: string | null,
): readonly At<Coverage>[] {
  const all = new Map(before.map((one) => [keyOf(one), one]));
  for (const one of more) {
    const earlier = all.get(keyOf(one));
    const count = (earlier?.count ?? 0) + one.count;
    const complete =
      one.complete || earlier?.complete === true || (typeof one.of === "number" && count >= one.of);
    const isUnchanged = earlier?.count === count && earlier.complete === complete;
    all.set(keyOf(one), { ...one, count, complete, commit: isUnchanged ? earlier.commit : commit });
  }
  return [...all.values()];
}

/** Rows with the same key are about the same thing. */
export function keyOf({ what, bound }: Pick<Coverage, "what" | "bound">): string {
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
  before: readonly At<PlantedResult>[],
  more: readonly PlantedResult[],
  commit: string | null,
): readonly At<PlantedResult>[] {
  const all = new Map(before.map((one) => [one.name, one]));
  for (const one of more) {
    all.set(one.name, { ...one, found: { ...all.get(one.name)?.found, ...one.found }, commit });
  }
  return [...all.values()];
}
