/** Clock, timers and randomness of the process: nothing else of the package touches them. */
import { randomUUID } from "node:crypto";

/** Behind an interface, so that a test can drive it. */
export interface Timing {
  /** Milliseconds that only grow. */
  now(): number;
  /** The time of day, in milliseconds since 1970. */
  today(): number;
  wait(milliseconds: number): Promise<void>;
  /** Calls back once after a time. Returns what takes that back. */
  after(milliseconds: number, callback: () => void): () => void;
}

export const processTiming: Timing = {
  now: () => performance.now(),
  today: () => Date.now(),
  wait: (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds)),
  after(milliseconds, callback) {
    const timer = setTimeout(callback, milliseconds);
    return () => clearTimeout(timer);
  },
};

/** Random, for keys and for values that must be new. */
export function newUuid(): string {
  return randomUUID();
}
