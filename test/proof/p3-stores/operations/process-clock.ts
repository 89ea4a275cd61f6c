/**
 * The clock of one process. Its time goes with the store's; a short pause is over soon, and counts; nobody loses
 * patience, and no lease is renewed between two steps, because nothing runs then.
 */
import type { CancelTimer, Clock } from "../../../../packages/latchkey/src/ports.ts";

/** Anything up to this is a pause between two tries, or a batch that is filled. */
const pauseMaxMs = 1_000;
/** So much faster than time itself do pauses go. */
const speed = 50;

export class ProcessClock implements Clock {
  readonly #wallMs: () => number;
  readonly #pauses = new Set<NodeJS.Timeout>();
  #pausedMs = 0;
  #alive = true;

  constructor(wallMs: () => number) {
    this.#wallMs = wallMs;
  }

  monotonicMs(): number {
    return this.#wallMs() + this.#pausedMs;
  }

  wallMs(): number {
    return this.#wallMs();
  }

  startTimer(delayMs: number, task: () => void): CancelTimer {
    if (!this.#alive || delayMs > pauseMaxMs) return () => {};
    const dueMs = this.monotonicMs() + delayMs;
    const pause = setTimeout(() => {
      this.#pauses.delete(pause);
      this.#pausedMs += Math.max(0, dueMs - this.monotonicMs());
      task();
    }, delayMs / speed);
    this.#pauses.add(pause);
    return () => {
      this.#pauses.delete(pause);
      clearTimeout(pause);
    };
  }

  keepAlive(): () => void {
    return () => {};
  }

  /** Nothing of the process happens any more. */
  stop(): void {
    this.#alive = false;
    for (const pause of this.#pauses) clearTimeout(pause);
  }
}
