/** The result of a look-up, and the fields of a new life of a key. */
import type { Fence, Fingerprint, LatchkeyRecord, RecordKey } from "../engine/record.ts";

/** A record and the store's time, read together. */
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
  /** The input with which the operation's work is resumed, as the codec stored it; absent if the operation does not own its work. */
  readonly input?: Uint8Array;
  /**
   * Whether `readById` finds it for its tenant, for a status resource. Default false. False for a life that one transaction
   * begins and completes, because no client has got its id.
   */
  readonly addressable?: boolean;
  /** A short form of the request, as the codec stored it. A resumed life keeps the one it has. Absent: none. */
  readonly summary?: Uint8Array;
  /** The span in which it begins, as a W3C traceparent of 55 characters. A resumed life keeps the one it has. Absent: none. */
  readonly trace?: string;
}

/** Reads the short form of the request with which a life began. */
export interface Summaries {
  /** Null if the life has none, or no longer exists. */
  of(key: RecordKey, id: string): Promise<Uint8Array | null>;
}
