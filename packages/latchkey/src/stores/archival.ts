/**
 * Forgetting in two steps, so that records can be put elsewhere in between: those that are due are read, and later removed by
 * name. Both steps judge by the store's clock; what is no longer due, or another life, stays.
 */
import type { ExpiredRecord, FinishedRecord } from "../engine/record.ts";

export interface CleanReport {
  /** Abandoned `pending` records that became `failed`. */
  readonly abandoned: number;
  /** Answers purged. */
  readonly purged: number;
  /** Keys forgotten. */
  readonly forgotten: number;
  /** Delivered effects removed. */
  readonly effects: number;
  /** Tallies of messages removed. */
  readonly messages: number;
}

/**
 * A record whose time is over. `answer` is there where it goes together with its key; as the codec stored it, like `summary`,
 * which is what its request asked for, in short. Null: none was kept.
 */
export type ForgottenRecord = (FinishedRecord | ExpiredRecord) & { readonly summary: Uint8Array | null };

export interface Archival {
  /** As `clean` of the store, without the edge `forget`: `forgotten` is 0, and answers that go with their key stay. */
  clean(limit: number): Promise<CleanReport>;
  /** At most `limit` records that `clean` of the store would forget now, oldest first. */
  due(limit: number): Promise<readonly ForgottenRecord[]>;
  /** Edge `forget`, for those of these that are still due and of the same life. How many that were. */
  forget(records: readonly (FinishedRecord | ExpiredRecord)[]): Promise<number>;
}

export interface ArchiveContext {
  /** Aborts when the round's time, 60 seconds, is over. The records then stay. */
  readonly signal: AbortSignal;
}

/**
 * Puts records elsewhere. They are removed once it has resolved; when it rejects, they stay and come again in the next round.
 * A crash, or two workers at once, may bring a record again: tell it by its `id`.
 */
export type Archive = (records: readonly ForgottenRecord[], context: ArchiveContext) => Promise<void>;
