/** Time, randomness and network for tests of `latchkey-client`: pauses end at once and are recorded. */
import type { Ports } from "../../packages/latchkey-client/src/ports.ts";

export interface ClientPorts extends Ports {
  /** The delays of the timers that were started, except held ones. */
  readonly pausesMs: number[];
  /** Lets time pass; runs held timers that are due. */
  advance(ms: number): void;
  /** Whether the platform reports a network; going online wakes the waiting calls. */
  setOnline(isOnline: boolean): void;
  /** The number of calls that wait for a network. */
  waitingForNetwork(): number;
}

/**
 * @param held limits, which only `advance` reaches. Default: those of attempts, of calls and of leases
 * @param fraction the random number. Default 0: the shortest pauses
 */
export function clientPorts({
  held = [30_000, 120_000, 10_000 / 3],
  fraction = 0,
  startMs = 1_700_000_000_000,
}: {
  held?: readonly number[];
  fraction?: number;
  startMs?: number;
} = {}): ClientPorts {
  let now = 0;
  let isOnline = true;
  const timers = new Map<object, { at: number; task: () => void }>();
  const waiting = new Set<() => void>();
  const pausesMs: number[] = [];
  const runDue = () => {
    for (const [timer, { at, task }] of [...timers]) {
      if (at > now || !timers.delete(timer)) continue;
      task();
    }
  };
  return {
    pausesMs,
    advance(ms) {
      now += ms;
      runDue();
    },
    setOnline(value) {
      isOnline = value;
      if (!value) return;
      for (const task of [...waiting]) {
        waiting.delete(task);
        task();
      }
    },
    waitingForNetwork: () => waiting.size,
    clock: {
      monotonicMs: () => now,
      wallMs: () => startMs + now,
      startTimer(delayMs, task) {
        const timer = { at: now + delayMs, task };
        timers.set(timer, timer);
        if (!held.includes(delayMs)) {
          pausesMs.push(delayMs);
          setImmediate(() => {
            now = Math.max(now, timer.at);
            runDue();
          });
        }
        return () => void timers.delete(timer);
      },
    },
    random: {
      bytes: (count) => crypto.getRandomValues(new Uint8Array(count)),
      fraction: () => fraction,
    },
    network: {
      isOnline: () => isOnline,
      onceOnline(task) {
        waiting.add(task);
        return () => void waiting.delete(task);
      },
    },
  };
}
