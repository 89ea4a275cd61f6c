/** The clock of one process: it shows the time that it was last set to. */
import type { Clock } from "../../../packages/latchkey/src/ports.ts";

interface Timer {
  readonly dueMs: number;
  readonly isShort: boolean;
  readonly task: () => void;
}

/** Back-offs are over at once; what takes longer waits until time passes. */
const shortMs = 200;

export class ProcessClock implements Clock {
  now = 0;
  readonly #timers = new Set<Timer>();

  monotonicMs(): number {
    return this.now;
  }

  wallMs(): number {
    return this.now;
  }

  startTimer(delayMs: number, task: () => void): () => void {
    const timer = { dueMs: this.now + delayMs, isShort: delayMs <= shortMs, task };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  keepAlive(): () => void {
    return () => {};
  }

  get dueMs(): number | null {
    const dues = [...this.#timers].map(({ dueMs }) => dueMs);
    return dues.length === 0 ? null : Math.min(...dues);
  }

  /** Fires the first timer that is short or, with `all`, due. False: there is none. */
  fire(all: boolean): boolean {
    let next: Timer | null = null;
    for (const timer of this.#timers) {
      if (!timer.isShort && !(all && timer.dueMs <= this.now)) continue;
      if (next === null || timer.dueMs < next.dueMs) next = timer;
    }
    if (next === null) return false;
    this.#timers.delete(next);
    next.task();
    return true;
  }
}
