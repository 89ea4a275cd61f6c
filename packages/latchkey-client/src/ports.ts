/**
 * Clock, timers, randomness and the state of the network. This is the only file that touches the real ones; tests give
 * their own.
 */

import type { IdbFactory } from "./storages/idb.ts";

export interface Clock {
  /** Milliseconds from an arbitrary start; never goes back. */
  monotonicMs(): number;
  /** Milliseconds since the Unix epoch, by this machine. */
  wallMs(): number;
  /** Runs `task` once after `delayMs`. Returns what stops it; stopping twice does nothing. */
  startTimer(delayMs: number, task: () => void): () => void;
}

export interface Random {
  /** Fresh random bytes of a cryptographic generator. */
  bytes(count: number): Uint8Array;
  /** A number in [0, 1), for jitter. */
  fraction(): number;
}

export interface Network {
  /** False where the platform is certain that there is no network. */
  isOnline(): boolean;
  /** Runs `task` once when the platform reports a network. Returns what stops it. */
  onceOnline(task: () => void): () => void;
}

export interface Ports {
  readonly clock: Clock;
  readonly random: Random;
  readonly network: Network;
}

/** The longest delay a timer can have; platforms fire one that is longer at once. */
const timerMaxMs = 2_147_483_647;

/** What is needed of pages, workers and servers; each has some of it. */
interface Platform {
  readonly navigator?: { readonly locks?: LockManager; readonly onLine?: boolean };
  readonly indexedDB?: IdbFactory;
  readonly addEventListener?: (type: "online", task: () => void, options: { readonly once: true }) => void;
  readonly removeEventListener?: (type: "online", task: () => void) => void;
}

/** What is needed of the platform's Web Locks. */
export interface LockManager {
  request<T>(name: string, options: { readonly signal: AbortSignal }, task: () => Promise<T>): Promise<T>;
}

/** Read at every use. */
export const platform: Platform = globalThis;

export const systemPorts: Ports = {
  clock: {
    monotonicMs: () => performance.now(),
    wallMs: () => Date.now(),
    startTimer(delayMs, task) {
      const timer = setTimeout(task, Math.min(delayMs, timerMaxMs));
      return () => clearTimeout(timer);
    },
  },
  random: {
    // Not `crypto.randomUUID`: pages without TLS have `getRandomValues` alone.
    bytes: (count) => crypto.getRandomValues(new Uint8Array(count)),
    fraction: () => Math.random(),
  },
  network: {
    isOnline: () => platform.navigator?.onLine !== false,
    onceOnline(task) {
      // Pages and workers have these. Elsewhere nothing says that there is no network, so nothing waits for one.
      platform.addEventListener?.("online", task, { once: true });
      return () => platform.removeEventListener?.("online", task);
    },
  },
};

/** Resolves after `delayMs`; rejects with the signal's reason as soon as it aborts. */
export function pause(clock: Clock, delayMs: number, signal: AbortSignal): Promise<void> {
  return waitFor((done) => clock.startTimer(delayMs, done), signal);
}

/** Waits for one event of `subscribe`, whose answer ends the subscription; rejects when the signal aborts. */
export function waitFor(subscribe: (done: () => void) => () => void, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const leave = () => {
      stop();
      reject(signal.reason);
    };
    const stop = subscribe(() => {
      signal.removeEventListener("abort", leave);
      resolve();
    });
    signal.addEventListener("abort", leave, { once: true });
  });
}

/** A signal that aborts with `signal`, or with a TimeoutError after `limitMs`. `cancel` stops its timer. */
export function limited(
  clock: Clock,
  limitMs: number,
  signal: AbortSignal,
): { readonly signal: AbortSignal; cancel(): void } {
  const limit = new AbortController();
  const cancel = clock.startTimer(limitMs, () => limit.abort(new DOMException("timed out", "TimeoutError")));
  return { signal: AbortSignal.any([signal, limit.signal]), cancel };
}
