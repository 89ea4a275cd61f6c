/**
 * Facts: what happened around a record that changes nothing of it, for the people who look at it. They are kept in the
 * background and by best effort, so a fact may be missing, and decide nothing.
 *
 * Of each kind a record has the first ten and the last twenty, and a count of all. They belong to one life and go with its
 * record; those of an earlier life of the key are overwritten.
 */
import type { RecordKey } from "../engine/record.ts";

/** `repeat`: a request that came again. `look_up`: the outcome-reconciler asked what became of it. */
export type FactKind = "repeat" | "look_up";

/** Of each kind of a record's. */
export const firstFactsMax = 10;
export const lastFactsMax = 20;

/** Of our own vocabulary: nothing that a client, a handler or another service has chosen. */
export interface FactSaid {
  /** What a repeated request was answered, or what a look-up has found. */
  readonly what: string;
  readonly because: string | null;
  /** Id of the trace in which it happened, 32 hexadecimal digits. */
  readonly traceId: string | null;
}

/** Several facts of one kind and key, as one process has seen them. */
export interface FactGroup {
  readonly key: RecordKey;
  /** Null: of whatever life the key has when they are kept. */
  readonly recordId: string | null;
  readonly kind: FactKind;
  /** How many there were; `facts` may be fewer, but has the first ten and the last twenty. */
  readonly count: number;
  readonly facts: readonly (FactSaid & { readonly agoMs: number })[];
}

export interface KeptFacts {
  readonly kind: FactKind;
  /** How many there were in all. */
  readonly count: number;
  /** Oldest first. Where there were more than thirty, those between the tenth and the twentieth from the end are missing. */
  readonly facts: readonly (FactSaid & {
    /** Milliseconds since the Unix epoch, by the store's clock. */
    readonly at: number;
  })[];
}

export interface FactSupport {
  /**
   * Adds to what is kept, each group in one step. A group whose record is not there, has another id, or is locked by another
   * transaction is passed over. No two groups are of one key and kind.
   */
  keep(groups: readonly FactGroup[]): Promise<void>;

  /** What is kept of this life, a row for each kind that there is. */
  of(key: RecordKey, recordId: string): Promise<readonly KeptFacts[]>;
}

/** The first ten and the last twenty. */
export function boundedFacts<T>(facts: readonly T[]): readonly T[] {
  if (facts.length <= firstFactsMax + lastFactsMax) return facts;
  return [...facts.slice(0, firstFactsMax), ...facts.slice(-lastFactsMax)];
}
