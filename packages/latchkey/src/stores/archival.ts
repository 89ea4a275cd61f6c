/**
 * Forgetting in two steps, so that records can be archived in between: those that are due are read, and later removed by
 * name. Both steps judge by the store's clock; a record that is no longer due, or has another life, stays.
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
 * A record whose retention is over. It has its `answer` if that is removed together with the key. `answer` and `summary` (a
 * short form of the request) are as the codec stored them; null if none was stored.
 */
export type ForgottenRecord = (FinishedRecord | ExpiredRecord) & { readonly summary: Uint8Array | null };

export interface Archival {
  /** As `clean` of the store, without the edge `forget`: `forgotten` is 0, and answers that go with their key stay. */
  clean(limit: number): Promise<CleanReport>;
  /** At most `limit` records that `clean` of the store would forget now, oldest first. */
  due(limit: number): Promise<readonly ForgottenRecord[]>;
  /** Edge `forget`, for those of the records that are still due and of the same life. Returns how many those were. */
  forget(records: readonly (FinishedRecord | ExpiredRecord)[]): Promise<number>;
}

export interface ArchiveContext {
  /** Aborts when the round's time, 60 seconds, is over. The records then stay. */
  readonly signal: AbortSignal;
}

/**
 * Archives records. They are removed once it has resolved; when it rejects, they stay and are passed again in the next round.
 * After a crash, or with two workers at once, a record may be passed twice: recognise it by its `id`.
 */
export type Archive = (records: readonly ForgottenRecord[], context: ArchiveContext) => Promise<void>;
