/** Rows that refused a write. They are left alone for a while, so that they are in nobody's way. */
import type { Clock } from "../../ports.ts";

const sparedMs = 60_000;
/** Beyond so many the one that was spared first is tried again early. */
const sparedMax = 1_000;

export class SparedRows {
  readonly #clock: Clock;
  /** Until when each is left alone, by the monotonic clock. */
  readonly #spared = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  spare(id: string): void {
    this.#spared.delete(id);
    this.#spared.set(id, this.#clock.monotonicMs() + sparedMs);
    const [oldest] = this.#spared.keys();
    if (this.#spared.size > sparedMax && oldest !== undefined) this.#spared.delete(oldest);
  }

  /** The ids of those that are left alone now, as a JSON list. */
  list(): string {
    const now = this.#clock.monotonicMs();
    for (const [id, until] of this.#spared) if (until <= now) this.#spared.delete(id);
    return JSON.stringify([...this.#spared.keys()]);
  }
}
