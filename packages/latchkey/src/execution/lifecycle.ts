/** Tracks what is under way in this process for a latchkey, and stops it. */

import { StoreError } from "../errors.ts";
import { checkOptions, type OptionNames } from "../known-options.ts";
import { type Clock, timerMaxMs } from "../ports.ts";
import { withLimit } from "../time/time-limit.ts";
import { insideAttempt } from "./nesting.ts";

export interface CloseOptions {
  /**
   * How long requests, workers and consumers may take to finish what is under way. Default 25 seconds, less than the 30 that
   * platforms usually allow.
   */
  readonly timeoutMs?: number;
}

const closeOptionNames = { timeoutMs: true } as const satisfies OptionNames<CloseOptions>;
const timeoutDefaultMs = 25_000;
/** The time for the store to release its resources, even if no other time is left. */
const storeLimitMs = 1_000;

export class Lifecycle {
  readonly #clock: Clock;
  /** Functions that stop running workers and consumers. */
  readonly #stops = new Set<() => Promise<unknown>>();
  #running = 0;
  #drained = Promise.withResolvers<void>();
  #closing: Promise<boolean> | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get isClosing(): boolean {
    return this.#closing !== null;
  }

  /**
   * Runs a submission. While closing, a submission inside a running handler is still accepted.
   *
   * @throws {StoreError} `not_sent` once it closes.
   */
  async run<T>(submit: () => Promise<T>): Promise<T> {
    if (this.#closing !== null && !insideAttempt()) {
      const message = "latchkey.close() was called: this process accepts no more work";
      throw new StoreError("not_sent", { message, overload: true });
    }
    this.#running += 1;
    try {
      return await submit();
    } finally {
      this.#running -= 1;
      if (this.#running === 0 && this.#closing !== null) this.#drained.resolve();
    }
  }

  /** Registers `stop` for closing. The returned function stops at most once, even if it is called again. */
  stopping<T>(stop: () => Promise<T>): () => Promise<T> {
    let stopped: Promise<T> | null = null;
    const once = () => {
      this.#stops.delete(once);
      stopped ??= stop();
      return stopped;
    };
    this.#stops.add(once);
    return once;
  }

  /**
   * @param closeStore releases the store's resources
   * @throws {TypeError} when the limit is out of range.
   */
  close(options: CloseOptions, closeStore: () => Promise<void>): Promise<boolean> {
    checkOptions("close", options, closeOptionNames);
    const { timeoutMs = timeoutDefaultMs } = options;
    if (!Number.isSafeInteger(timeoutMs) || timeoutMs <= 0 || timeoutMs > timerMaxMs) {
      throw new TypeError(
        `close: timeoutMs must be a whole number from 1 to ${timerMaxMs} (got ${timeoutMs})`,
      );
    }
    this.#closing ??= this.#close(timeoutMs, closeStore);
    return this.#closing;
  }

  async #close(timeoutMs: number, closeStore: () => Promise<void>): Promise<boolean> {
    const releaseKeepAlive = this.#clock.keepAlive();
    // After this turn, so that new submissions are already refused.
    const ended = await withLimit(this.#clock, timeoutMs, async () => {
      await null;
      if (this.#running === 0) this.#drained.resolve();
      const stops = [...this.#stops].map((stop) => stop());
      const [, ...stopped] = await Promise.all([this.#drained.promise, ...stops]);
      // A worker returns false if it had to abandon work.
      return stopped.every((inTime) => inTime !== false);
    });
    const given = await withLimit(this.#clock, storeLimitMs, closeStore);
    releaseKeepAlive();
    return ended.kind === "returned" && ended.value && given.kind === "returned";
  }
}
