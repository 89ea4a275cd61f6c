/**
 * The servers' clocks, as far as is known here. A client may send what it is given long after it was asked for, when it has
 * found its server again; by then the caller has given up. So a call that begins an attempt carries a deadline.
 */
import type { Clock } from "../../ports.ts";

export class ServerTime {
  readonly #clock: Clock;
  /** For each partition, the server's time less the process's: never too small. */
  readonly #ahead = new Map<number, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** A moment of the process's own, to be given to `heard` with the reply. */
  moment(): number {
    return this.#clock.monotonicMs();
  }

  /** The server of a partition said that it was `now`, some time after the moment `since`. */
  heard(partition: number, now: number, since: number): void {
    this.#ahead.set(partition, now - since);
  }

  /** What time it will be there at most, `delayMs` from now. Null: it has not answered yet. */
  in(partition: number, delayMs: number): number | null {
    const ahead = this.#ahead.get(partition);
    return ahead === undefined ? null : Math.ceil(this.#clock.monotonicMs() + ahead + delayMs);
  }
}
