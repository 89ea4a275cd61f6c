/**
 * Facts: events around a record that do not change it, for operators who inspect it. They are written in the background with
 * best effort, so a fact may be missing, and no decision depends on one.
 *
 * For each kind a record keeps the first ten and the last twenty facts, and a count of all. They belong to one life and go
 * with its record; those of an earlier life of the key are overwritten.
 */
import type { RecordKey } from "../engine/record.ts";

/** `repeat`: the request was sent again. `look_up`: the outcome-reconciler looked up its outcome. */
export type FactKind = "repeat" | "look_up";

/** How many are kept of each kind of a record. */
export const firstFactsMax = 10;
export const lastFactsMax = 20;

/** Holds only Latchkey's own words: nothing that a client, a handler or another service has chosen. */
export interface FactMeaning {
  /** How a repeated request was answered, or what a look-up found. */
  readonly what: string;
  readonly because: string | null;
  /** Id of the trace in which it happened, 32 hexadecimal digits. */
  readonly traceId: string | null;
}

/** Several facts of one kind and key, as one process has seen them. */
export interface FactGroup {
  readonly key: RecordKey;
  /** Null: the life that the key has when the facts are written. */
  readonly recordId: string | null;
  readonly kind: FactKind;
  /** How many there were; `facts` may be fewer, but has the first ten and the last twenty. */
  readonly count: number;
  readonly facts: readonly (FactMeaning & { readonly agoMs: number })[];
}

export interface KeptFacts {
  readonly kind: FactKind;
  /** How many there were in all. */
  readonly count: number;
  /** Oldest first. Where there were more than thirty, those between the tenth and the twentieth from the end are missing. */
  readonly facts: readonly (FactMeaning & {
    /** Milliseconds since the Unix epoch, by the store's clock. */
    readonly at: number;
  })[];
}

export interface FactSupport {
  /**
   * Adds each group in one step. A group whose record does not exist, has another id, or is locked by another transaction is
   * skipped. No two groups may have the same key and kind.
   */
  keep(groups: readonly FactGroup[]): Promise<void>;

  /** The facts of this life, one entry for each kind that it has. */
  of(key: RecordKey, recordId: string): Promise<readonly KeptFacts[]>;
}

/** The first ten and the last twenty. */
export function boundedFacts<T>(facts: readonly T[]): readonly T[] {
  if (facts.length <= firstFactsMax + lastFactsMax) return facts;
  return [...facts.slice(0, firstFactsMax), ...facts.slice(-lastFactsMax)];
}
