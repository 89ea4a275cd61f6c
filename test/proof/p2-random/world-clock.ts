/** One time for the store and all processes. It moves when the schedule says so; a frozen process's timers wait for it. */
import type { Clock } from "../../../packages/latchkey/src/ports.ts";

/** Whose timers they are. */
export interface TimerOwner {
  readonly alive: boolean;
  readonly frozen: boolean;
}

interface Timer {
  readonly dueMs: number;
  readonly task: () => void;
  readonly owner: TimerOwner;
}

const startMs = 1_000_000;

export class WorldClock {
  #nowMs = startMs;
  #timers: Timer[] = [];

  get nowMs(): number {
    return this.#nowMs;
  }

  /** What a process, or the store, sees of it. */
  of(owner: TimerOwner): Clock {
    return {
      monotonicMs: () => this.#nowMs,
      wallMs: () => this.#nowMs,
      startTimer: (delayMs, task) => {
        if (!owner.alive) return () => {};
        const timer = { dueMs: this.#nowMs + Math.max(0, delayMs), task, owner };
        this.#timers.push(timer);
        return () => {
          const at = this.#timers.indexOf(timer);
          if (at >= 0) this.#timers.splice(at, 1);
        };
      },
      keepAlive: () => () => {},
    };
  }

  /** When the next timer of a process that is awake is due; null: there is none. */
  nextDueMs(): number | null {
    return this.#next()?.dueMs ?? null;
  }

  /** Fires the next timer that is due by then; the time is then no earlier than its own. False: none was left. */
  fireOne(untilMs: number): boolean {
    const timer = this.#next();
    if (timer === null || timer.dueMs > untilMs) return false;
    this.#timers.splice(this.#timers.indexOf(timer), 1);
    this.#nowMs = Math.max(this.#nowMs, timer.dueMs);
    timer.task();
    return true;
  }

  moveTo(ms: number): void {
    this.#nowMs = Math.max(this.#nowMs, ms);
  }

  /** A process has died. */
  drop(owner: TimerOwner): void {
    this.#timers = this.#timers.filter((timer) => timer.owner !== owner);
  }

  /** How many timers are set. */
  get size(): number {
    return this.#timers.length;
  }

  #next(): Timer | null {
    let next: Timer | null = null;
    for (const timer of this.#timers) {
      if (timer.owner.frozen) continue;
      if (next === null || timer.dueMs < next.dueMs) next = timer;
    }
    return next;
  }
}
