/** Pauses between tries whose number is kept in the store: 1 second, doubling, up to an hour. */
const firstMs = 1_000;
const maxMs = 60 * 60 * 1_000;
const doublingsMax = 12;

/** @param tries how many there were, at least 1 */
export function backoffMs(tries: number): number {
  return Math.min(maxMs, firstMs * 2 ** Math.min(tries - 1, doublingsMax));
}
