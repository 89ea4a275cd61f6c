/** The pause before the next try, for everything that is retried. */
import type { Random } from "../ports.ts";

export interface RetryPauses {
  /** The first pause, at most. */
  readonly firstMs: number;
  /** No pause is longer. */
  readonly maxMs: number;
}

/** From 1 ms, this is longer than any timer. */
const doublingsMax = 31;

/**
 * Doubles from try to try, and draws each pause from its upper half, so that transactions that have conflicted come back
 * at different times, and none comes back at once.
 *
 * @param tries how many there were, at least 1
 */
export function retryPauseMs(tries: number, random: Pick<Random, "fraction">, pauses: RetryPauses): number {
  return doubledMs(tries, pauses) * (0.5 + random.fraction() / 2);
}

/**
 * The pause until a worker resumes a record or looks up its outcome: 1 second, doubling, up to an hour. It needs no jitter:
 * workers take what is due in batches of limited size, so records that come due together are not all tried at once.
 *
 * @param tries how many there were, at least 1
 */
export function workerPauseMs(tries: number): number {
  return doubledMs(tries, workerPauses);
}

function doubledMs(tries: number, { firstMs, maxMs }: RetryPauses): number {
  return Math.min(maxMs, firstMs * 2 ** Math.min(tries - 1, doublingsMax));
}

/** After a transaction or an admission that was lost to another one. Eight tries take two to three seconds at most. */
export const conflictPauses: RetryPauses = { firstMs: 20, maxMs: 2_000 };

const workerPauses: RetryPauses = { firstMs: 1_000, maxMs: 60 * 60 * 1_000 };

/** After a write that the store did not confirm, while an attempt waits for it. */
export const storePauses: RetryPauses = { firstMs: 50, maxMs: 500 };
