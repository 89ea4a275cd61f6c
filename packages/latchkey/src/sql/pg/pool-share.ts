/** What all users of one pool in this process share. */

import { StoreError } from "../../errors.ts";
import type { Clock } from "../../ports.ts";
import type { PgConnector, PgPool } from "./client.ts";
import { RepeatedStatements } from "./statement-names.ts";

export interface PoolShare {
  readonly gate: ConcurrencyLimit;
  /** Clients that heartbeats hold. */
  reserved: number;
  transactionsMax: number;
  readonly repeated: RepeatedStatements;
  /** Clients that are checked out of the pool, by any code. */
  readonly out: Set<object>;
  /** Whether the missing `connectionTimeoutMillis` has been reported. */
  warned: boolean;
}

const shares = new WeakMap<object, PoolShare>();

export function shareOf(pool: PgPool): PoolShare {
  const known = shares.get(pool);
  if (known !== undefined) return known;
  const share: PoolShare = {
    // One client stays free for handlers that use the pool beside their `tx`, if the pool has more than one.
    gate: new ConcurrencyLimit(() => Math.max(1, share.transactionsMax - share.reserved)),
    reserved: 0,
    transactionsMax: pool.options?.max === undefined ? Number.POSITIVE_INFINITY : pool.options.max - 1,
    repeated: new RepeatedStatements(),
    out: new Set(),
    warned: false,
  };
  watch(pool as PgPool & PgConnector, share.out);
  shares.set(pool, share);
  return share;
}

/** A client that hangs while it connects is not out: it has never been handed over. */
function watch(pool: PgConnector, out: Set<object>): void {
  if (typeof pool.on !== "function") return;
  pool.on("acquire", (client) => out.add(client));
  pool.on("release", (_error, client) => out.delete(client));
  pool.on("remove", (client) => out.delete(client));
}

/** Lets at most so many through at once; the others wait in line. */
class ConcurrencyLimit {
  readonly #limit: () => number;
  readonly #waiting = new Set<() => void>();
  #inside = 0;
  /** How long those who have left were inside, as a moving average; null: none has left. */
  #stayMs: number | null = null;

  /** @param limit asked at every change, so it may change meanwhile */
  constructor(limit: () => number) {
    this.#limit = limit;
  }

  /**
   * Waits for a place; returns the function that gives it back.
   *
   * @throws {StoreError} `not_sent` after `timeoutMs` in line
   */
  async enter(clock: Clock, timeoutMs: number): Promise<() => void> {
    if (this.#waiting.size > 0 || this.#inside >= this.#limit()) await this.#stand(clock, timeoutMs);
    else this.#inside += 1;
    const enteredMs = clock.monotonicMs();
    let left = false;
    return () => {
      if (left) return;
      left = true;
      this.#inside -= 1;
      const stayMs = clock.monotonicMs() - enteredMs;
      this.#stayMs = this.#stayMs === null ? stayMs : this.#stayMs + (stayMs - this.#stayMs) / 8;
      this.admit();
    };
  }

  /** Lets in whom the limit allows now. */
  admit(): void {
    for (const enter of this.#waiting) {
      if (this.#inside >= this.#limit()) return;
      enter();
    }
  }

  /** How long it takes until those who are inside and in line have left; at least as long as `waitedMs` where none has left. */
  drainMs(waitedMs: number): number {
    const rounds = Math.ceil((this.#waiting.size + 1) / Math.max(1, this.#limit()));
    return Math.min(drainMaxMs, Math.ceil(rounds * (this.#stayMs ?? waitedMs)));
  }

  #stand(clock: Clock, timeoutMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const enter = () => {
        this.#waiting.delete(enter);
        cancel();
        this.#inside += 1;
        resolve();
      };
      const cancel = clock.startTimer(timeoutMs, () => {
        this.#waiting.delete(enter);
        const message =
          `No place among the ${this.#limit()} running transactions became free within ${timeoutMs} ms: ` +
          "raise the pool's `max` (or `transactionsMax`), or do less inside handlers";
        const retryAfterMs = this.drainMs(timeoutMs);
        reject(new StoreError("not_sent", { message, overload: true, retryAfterMs }));
      });
      this.#waiting.add(enter);
    });
  }
}

/** No client is sent away for longer on an estimate. */
const drainMaxMs = 30_000;
