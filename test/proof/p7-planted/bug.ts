/** A mistake that is planted into the library's source as it is loaded. It exists nowhere else. */
import type { TierId } from "../harness/tier.ts";

export interface Change {
  /** Below packages/latchkey/src. */
  readonly file: string;
  /** Is there exactly once. */
  readonly find: string;
  readonly replace: string;
}

export interface Bug {
  /** The mistake, as a short sentence. */
  readonly name: string;
  /** The public bug that it re-creates, or null. */
  readonly recreates: string | null;
  readonly changes: readonly Change[];
  /** The tiers that could see it, the quickest first: those that run on the code it is in. */
  readonly tiers: readonly TierId[];
}

/** @throws when the code is not what the bug was written for */
export function planted(source: string, { file, find, replace }: Change): string {
  const parts = source.split(find);
  if (parts.length !== 2) throw new Error(`${file} has ${parts.length - 1} times: ${find}`);
  return parts.join(replace);
}
