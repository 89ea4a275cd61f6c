/** Rows that refused a write. They are left alone for a while, so that they do not block other rows. */
import type { Clock } from "../../ports.ts";

const sparedMs = 60_000;
/** Beyond so many the one that was spared first is tried again early. */
const sparedMax = 1_000;

export class QuarantinedRows {
  readonly #clock: Clock;
  /** Until when each is left alone, by the monotonic clock. */
  readonly #quarantined = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  quarantine(id: string): void {
    this.#quarantined.delete(id);
    this.#quarantined.set(id, this.#clock.monotonicMs() + sparedMs);
    const [oldest] = this.#quarantined.keys();
    if (this.#quarantined.size > sparedMax && oldest !== undefined) this.#quarantined.delete(oldest);
  }

  /** The ids of those that are left alone now, as a JSON list. */
  list(): string {
    const now = this.#clock.monotonicMs();
    for (const [id, until] of this.#quarantined) if (until <= now) this.#quarantined.delete(id);
    return JSON.stringify([...this.#quarantined.keys()]);
  }
}
