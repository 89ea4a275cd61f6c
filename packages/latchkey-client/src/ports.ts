/** Clock, timers, randomness and the state of the network. Only this file uses the real ones; tests provide their own. */

import type { IdbFactory } from "./storages/idb.ts";

export interface Clock {
  /** Milliseconds from an arbitrary start; never goes back. */
  monotonicMs(): number;
  /** Milliseconds since the Unix epoch, by this machine. */
  wallMs(): number;
  /** Runs `task` once after `delayMs`. Returns a function that cancels it; cancelling twice does nothing. */
  startTimer(delayMs: number, task: () => void): () => void;
}

export interface Random {
  /** New random bytes from a cryptographic generator. */
  bytes(count: number): Uint8Array;
  /** A number in [0, 1), for jitter. */
  fraction(): number;
}

export interface Network {
  /** False if the platform is certain that there is no network. */
  isOnline(): boolean;
  /** Runs `task` once when the platform reports a network. Returns a function that cancels it. */
  onceOnline(task: () => void): () => void;
}

export interface Ports {
  readonly clock: Clock;
  readonly random: Random;
  readonly network: Network;
}

/** The longest delay of a timer; platforms fire longer ones immediately. */
const timerMaxMs = 2_147_483_647;

/** The required parts of pages, workers and servers; each has some of them. */
interface Platform {
  readonly navigator?: { readonly locks?: LockManager; readonly onLine?: boolean };
  readonly indexedDB?: IdbFactory;
  readonly addEventListener?: (type: "online", task: () => void, options: { readonly once: true }) => void;
  readonly removeEventListener?: (type: "online", task: () => void) => void;
}

/** The required part of the platform's Web Locks. */
export interface LockManager {
  request<T>(name: string, options: { readonly signal: AbortSignal }, task: () => Promise<T>): Promise<T>;
}

/** Read on every use. */
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
    // Not `crypto.randomUUID`: pages without TLS only have `getRandomValues`.
    bytes: (count) => crypto.getRandomValues(new Uint8Array(count)),
    fraction: () => Math.random(),
  },
  network: {
    isOnline: () => platform.navigator?.onLine !== false,
    onceOnline(task) {
      // Pages and workers have these events. Other platforms never report a missing network, so nothing waits for one.
      platform.addEventListener?.("online", task, { once: true });
      return () => platform.removeEventListener?.("online", task);
    },
  },
};

/** Resolves after `delayMs`; rejects with the signal's reason as soon as it aborts. */
export function pause(clock: Clock, delayMs: number, signal: AbortSignal): Promise<void> {
  return waitFor((done) => clock.startTimer(delayMs, done), signal);
}

/** Waits for one event of `subscribe`, which returns a function that unsubscribes; rejects when the signal aborts. */
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
