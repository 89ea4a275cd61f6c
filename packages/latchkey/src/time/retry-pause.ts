/** The pause before the next try, for everything that is retried. */
import type { Random } from "../ports.ts";

export interface RetryPauses {
  /** The first pause, at most. */
  readonly firstMs: number;
  /** No pause is longer. */
  readonly maxMs: number;
}

/** Exponents above this would only overflow. */
const doublingsMax = 20;

/**
 * Doubles from try to try, and draws each pause from its upper half, so that transactions that have conflicted come back
 * at different times, and none comes back at once.
 *
 * @param tries how many there were, at least 1
 */
export function retryPauseMs(
  tries: number,
  random: Pick<Random, "fraction">,
  { firstMs, maxMs }: RetryPauses,
): number {
  const longestMs = Math.min(maxMs, firstMs * 2 ** Math.min(tries - 1, doublingsMax));
  return longestMs * (0.5 + random.fraction() / 2);
}

/** After a transaction or an admission that was lost to another one. Eight tries take two to three seconds at most. */
export const conflictPauses: RetryPauses = { firstMs: 20, maxMs: 2_000 };

/** After a write that the store did not confirm, while an attempt waits for it. */
export const storePauses: RetryPauses = { firstMs: 50, maxMs: 500 };
