/**
 * Where a rescue enters the index of what is claimed: for the reason that `claim-places.ts` gives, not before the oldest
 * claim that the last one saw. What committed late, or under a clock that has gone back, is within the margin, or found
 * by the next rescue from the front.
 */
import type { Clock } from "../../ports.ts";

const marginMs = 10_000;
const frontEveryMs = 60_000;

export class RescuePlace {
  readonly #clock: Clock;
  #oldestMs: number | null = null;
  #frontAt = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** By the store's clock; null: from the front. */
  fromMs(): number | null {
    const now = this.#clock.monotonicMs();
    if (this.#oldestMs !== null && now - this.#frontAt < frontEveryMs) return this.#oldestMs - marginMs;
    this.#frontAt = now;
    return null;
  }

  looked(oldestMs: number): void {
    this.#oldestMs = oldestMs;
  }
}
