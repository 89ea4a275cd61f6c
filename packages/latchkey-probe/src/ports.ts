/** The process's clock, timers and randomness: no other file of the package uses them. */
import { randomUUID } from "node:crypto";

/** An interface, so that tests can control it. */
export interface Timing {
  /** Milliseconds; never decreases. */
  now(): number;
  /** The time of day, in milliseconds since 1970. */
  today(): number;
  wait(milliseconds: number): Promise<void>;
  /** Calls back once after this time. Returns a function that cancels it. */
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

/** A random UUID, for keys and for values that must be new. */
export function newUuid(): string {
  return randomUUID();
}
