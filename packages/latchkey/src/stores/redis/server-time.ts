/**
 * The servers' clocks, as far as this process knows them. A client may send a command long after the call, once it has
 * reconnected to its server; by then the caller has given up. So a call that begins an attempt carries a deadline.
 */
import type { Clock } from "../../ports.ts";

export class ServerTime {
  readonly #clock: Clock;
  /** For each partition, an upper bound of the server's time less the process's. */
  readonly #ahead = new Map<number, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The process's time before a call, to be passed to `observe` with the reply. */
  moment(): number {
    return this.#clock.monotonicMs();
  }

  /** Notes that the server of a partition has returned the time `now`, some time after the moment `since`. */
  observe(partition: number, now: number, since: number): void {
    this.#ahead.set(partition, now - since);
  }

  /** The latest time that the server's clock can show `delayMs` from now. Null if the server has not answered yet. */
  in(partition: number, delayMs: number): number | null {
    const ahead = this.#ahead.get(partition);
    return ahead === undefined ? null : Math.ceil(this.#clock.monotonicMs() + ahead + delayMs);
  }
}
