/** What a look-up finds, and what a new life of a key begins with. */
import type { Fence, Fingerprint, LatchkeyRecord, RecordKey } from "../engine/record.ts";

/** A record and the store's time, taken together. */
export interface Reading {
  readonly record: LatchkeyRecord | null;
  readonly now: number;
}

/** A new life of a key. */
export interface NewLife extends RecordKey {
  readonly id: string;
  readonly operation: string;
  readonly fingerprint: Fingerprint;
  readonly principal: string | null;
  readonly fence: Fence;
  /** What the operation's work is resumed with, as the codec stored it; absent where an operation does not own its work. */
  readonly input?: Uint8Array;
  /**
   * Whether `readById` finds it for its tenant, for a status resource. Default false. Not of one that a transaction begins and completes at
   * once: its id was never given to a client.
   */
  readonly addressable?: boolean;
  /** What its request asked for, in short, as the codec stored it. A life that goes on keeps what it has. Absent: nothing. */
  readonly summary?: Uint8Array;
  /** The span in which it begins, as a W3C traceparent of 55 characters. A life that goes on keeps what it has. Absent: none. */
  readonly trace?: string;
}

/** Where what a life's request asked for can be read. */
export interface Summaries {
  /** Null: the life has none, or is not there any more. */
  of(key: RecordKey, id: string): Promise<Uint8Array | null>;
}
