/** The clock and the randomness of one process: time stands still until somebody lets it go on, and nothing is drawn. */
import {
  type CancelTimer,
  type Clock,
  type Random,
  type TimerKind,
  uuidVersion7,
} from "../../../packages/latchkey/src/ports.ts";

/** The process's patience with the database: ends when the scheduler says so. */
export const patienceMs = 77_777;
/** Anything up to this that a caller awaits is a pause between two tries, and over at once. */
const pauseMaxMs = 1_000;

interface Timer {
  readonly delayMs: number;
  readonly kind: TimerKind;
  readonly task: () => void;
}

export class ProcessClock implements Clock {
  readonly #timers = new Set<Timer>();
  readonly #wallMs: () => number;
  #nowMs = 0;
  #lastPatience: Timer | null = null;

  constructor(wallMs: () => number) {
    this.#wallMs = wallMs;
  }

  monotonicMs(): number {
    return this.#nowMs;
  }

  wallMs(): number {
    return this.#wallMs();
  }

  startTimer(delayMs: number, task: () => void, kind: TimerKind = "awaited"): CancelTimer {
    const timer = { delayMs, kind, task };
    this.#timers.add(timer);
    if (delayMs === patienceMs) this.#lastPatience = timer;
    return () => {
      this.#timers.delete(timer);
    };
  }

  keepAlive(): () => void {
    return () => {};
  }

  /** For the flight that is being sent now; null: nobody has set it a limit of this kind. */
  patience(): (() => void) | null {
    const timer = this.#lastPatience;
    this.#lastPatience = null;
    return timer === null ? null : () => this.#fire(timer);
  }

  /** Ends a pause that somebody makes. False: nobody does. */
  endPause(): boolean {
    for (const timer of this.#timers) {
      if (timer.delayMs > pauseMaxMs || timer.kind === "background") continue;
      this.#nowMs += timer.delayMs;
      this.#fire(timer);
      return true;
    }
    return false;
  }

  /** Fires what was set for exactly this long. */
  fire(delayMs: number): void {
    for (const timer of [...this.#timers]) if (timer.delayMs === delayMs) this.#fire(timer);
  }

  /** Between two interleavings: what was remembered for a while is forgotten. */
  leap(): void {
    this.#timers.clear();
    this.#lastPatience = null;
    this.#nowMs += 3_600_000;
  }

  #fire(timer: Timer): void {
    if (this.#timers.delete(timer)) timer.task();
  }
}

/** Tokens and ids that tell by whom they were drawn, and as which. */
export class CountedRandom implements Random {
  readonly #session: number;
  #drawn = 0;

  constructor(session: number) {
    this.#session = session;
  }

  token(): string {
    return this.#next().toString("hex");
  }

  uuid(epochMs: number): string {
    return uuidVersion7(epochMs, this.#next().subarray(6));
  }

  fraction(): number {
    return 0.5;
  }

  restart(): void {
    this.#drawn = 0;
  }

  #next(): Buffer {
    this.#drawn += 1;
    const bytes = Buffer.alloc(16);
    bytes.writeUInt8(0xa0 + this.#session, 0);
    bytes.writeUInt8(0xa0 + this.#session, 8);
    bytes.writeUInt32BE(this.#drawn, 12);
    return bytes;
  }
}
