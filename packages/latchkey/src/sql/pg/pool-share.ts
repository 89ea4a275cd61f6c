/** State that all users of one pool in this process share. */

import { StoreError } from "../../errors.ts";
import type { Clock } from "../../ports.ts";
import type { PgConnector, PgPool } from "./client.ts";
import { RepeatedStatements } from "./statement-names.ts";

export interface PoolShare {
  readonly limit: ConcurrencyLimit;
  /** Clients that heartbeats hold. */
  reserved: number;
  transactionsMax: number;
  readonly repeated: RepeatedStatements;
  /** How many clients are checked out of the pool, by any code. */
  outCount: number;
  /** Whether the missing `connectionTimeoutMillis` has been reported. */
  warned: boolean;
}

const shares = new WeakMap<object, PoolShare>();

export function shareOf(pool: PgPool): PoolShare {
  const known = shares.get(pool);
  if (known !== undefined) return known;
  const share: PoolShare = {
    // One client stays free for handlers that use the pool beside their `tx`, if the pool has more than one.
    limit: new ConcurrencyLimit(() => Math.max(1, share.transactionsMax - share.reserved)),
    reserved: 0,
    transactionsMax: pool.options?.max === undefined ? Number.POSITIVE_INFINITY : pool.options.max - 1,
    repeated: new RepeatedStatements(),
    outCount: 0,
    warned: false,
  };
  watch(pool as PgPool & PgConnector, share);
  shares.set(pool, share);
  return share;
}

/** A client that hangs while it connects does not count as checked out, because the pool has not handed it over. */
function watch(pool: PgConnector, share: PoolShare): void {
  if (typeof pool.on !== "function") return;
  // A mark on each client, because a set of them would cost each request a microsecond.
  const isOut = Symbol("latchkey.out");
  const mark = (client: { [isOut]?: boolean }, out: boolean) => {
    if ((client[isOut] ?? false) === out) return;
    client[isOut] = out;
    share.outCount += out ? 1 : -1;
  };
  pool.on("acquire", (client) => mark(client, true));
  pool.on("release", (_error, client) => mark(client, false));
  pool.on("remove", (client) => mark(client, false));
}

/** Admits at most `limit` transactions at once; the others wait in line. */
class ConcurrencyLimit {
  readonly #limit: () => number;
  readonly #waiting = new Set<() => void>();
  #inside = 0;
  /** How long finished transactions ran, as a moving average; null if none has finished. */
  #holdMs: number | null = null;

  /** @param limit called at every change, so the limit may vary over time */
  constructor(limit: () => number) {
    this.#limit = limit;
  }

  /**
   * Waits until the limit allows another transaction; returns the function to call at its end.
   *
   * @throws {StoreError} `not_sent` after `timeoutMs` in line
   */
  async enter(clock: Clock, timeoutMs: number): Promise<() => void> {
    if (this.#waiting.size > 0 || this.#inside >= this.#limit())
      await this.#waitForAdmission(clock, timeoutMs);
    else this.#inside += 1;
    const enteredMs = clock.monotonicMs();
    let left = false;
    return () => {
      if (left) return;
      left = true;
      this.#inside -= 1;
      const holdMs = clock.monotonicMs() - enteredMs;
      this.#holdMs = this.#holdMs === null ? holdMs : this.#holdMs + (holdMs - this.#holdMs) / 8;
      this.admit();
    };
  }

  /** Admits as many of the waiting as the limit allows now. */
  admit(): void {
    for (const enter of this.#waiting) {
      if (this.#inside >= this.#limit()) return;
      enter();
    }
  }

  /** Estimates how long the running and the waiting transactions take to finish. If none has finished yet, it assumes `waitedMs` for each. */
  drainMs(waitedMs: number): number {
    const rounds = Math.ceil((this.#waiting.size + 1) / Math.max(1, this.#limit()));
    return Math.min(drainMaxMs, Math.ceil(rounds * (this.#holdMs ?? waitedMs)));
  }

  #waitForAdmission(clock: Clock, timeoutMs: number): Promise<void> {
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
          `The pool was at its limit of ${this.#limit()} running transactions for ${timeoutMs} ms: ` +
          "raise the pool's `max` (or `transactionsMax`), or do less inside handlers";
        const retryAfterMs = this.drainMs(timeoutMs);
        reject(new StoreError("not_sent", { message, overload: true, retryAfterMs }));
      });
      this.#waiting.add(enter);
    });
  }
}

/** The longest time after which an estimate lets a client retry. */
const drainMaxMs = 30_000;
