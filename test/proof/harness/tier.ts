/** What a tier of the proof is given, and what it says that it found. The tiers are those of docs/proof.md. */

export type TierId = "P0" | "P1" | "P2" | "P3" | "P4" | "P5" | "P6" | "P7";

/** One sitting. A tier may need several for its whole volume. */
export interface Sitting {
  /** `small`: the stated bound of the test command, seconds. `full`: towards the volume that the tier is to reach. */
  readonly volume: "small" | "full";
  /** Nothing new is begun after this moment of `performance.now()`. Infinity: until the volume is reached. */
  readonly untilMs: number;
  /** 64 bits. What is drawn in this sitting comes from it, and from nothing else. */
  readonly seed: bigint;
  /** What the sitting before left behind, as JSON; null: this is the first on this code. */
  readonly resume: unknown;
  /** For whoever watches; one line. */
  say(line: string): void;
  /** What the sitting has shown so far, in case it is cut off. */
  keep?(result: TierResult): void;
}

/** How much of one thing was covered in a sitting. */
export interface Coverage {
  /** For example "schedules, lease under reconcile". */
  readonly what: string;
  /** The stated bound or configuration, in words. */
  readonly bound: string;
  readonly count: number;
  /** `all`: the bound is exhausted; a number: the volume to reach over all sittings. */
  readonly of: "all" | number;
  /** Whether the bound has been exhausted, or the volume reached, with this sitting. */
  readonly complete: boolean;
}

export interface PlantedResult {
  /** The mistake, as a short sentence. */
  readonly name: string;
  /** The public bug that it re-creates, or null. */
  readonly recreates: string | null;
  /** For each tier that was run: the schedules it took to find it, or null when it did not. */
  readonly found: Readonly<Partial<Record<TierId, number | null>>>;
}

export interface TierResult {
  readonly covered: readonly Coverage[];
  /** How often each thing that must be reachable happened; zero of any fails the run. */
  readonly reached: Readonly<Record<string, number>>;
  /** Faults injected, by kind. */
  readonly faults: Readonly<Record<string, number>>;
  /** Names and versions of the servers and tools that took part. */
  readonly versions: Readonly<Record<string, string>>;
  /** What could not run here, and why. */
  readonly notRun: readonly { readonly what: string; readonly reason: string }[];
  readonly planted?: readonly PlantedResult[];
  /** Where measured rather than judged (loss under asynchronous settings, say): plain sentences with numbers. */
  readonly measured?: readonly string[];
  /** For the next sitting; null: nothing is left to do. */
  readonly resume: unknown;
}

export interface Tier {
  readonly id: TierId;
  /** @throws {ProofFailure} at the first thing that must not be. */
  run(sitting: Sitting): Promise<TierResult>;
}

export interface FailureOptions extends ErrorOptions {
  /** How many schedules, sequences, interleavings or cycles it took to find; 0: it was found before the first. */
  readonly after: number;
}

/** Something that must not be. Its message has the seed and the line that shows it again. */
export class ProofFailure extends Error {
  override readonly name = "ProofFailure";
  readonly seed: string;
  /** One line for a shell. */
  readonly reproduce: string;
  readonly after: number;

  constructor(what: string, seed: bigint | string, reproduce: string, options: FailureOptions) {
    const { after } = options;
    super(`${what}\n  found after ${after}\n  seed ${seed}\n  again: ${reproduce}`, options);
    this.seed = String(seed);
    this.reproduce = reproduce;
    this.after = after;
  }
}

/**
 * @param after how many schedules, sequences, interleavings or cycles there were
 * @throws {ProofFailure} when something that must be reachable was never reached
 */
export function expectReached(
  reached: Readonly<Record<string, number>>,
  required: readonly string[],
  seed: bigint,
  reproduce: string,
  after: number,
): void {
  const missing = required.filter((what) => !((reached[what] ?? 0) > 0));
  if (missing.length === 0) return;
  throw new ProofFailure(`never reached: ${missing.join(", ")}`, seed, reproduce, { after });
}
