/** Ports that a test drives: time moves only by `advance`, and randomness repeats. */
import { type Clock, type Ports, type Random, uuidVersion7 } from "../../packages/latchkey/src/ports.ts";

export interface ManualClock extends Clock {
  /**
   * Moves time on by `ms`, firing the timers that come due in their order, and lets what they started run until it
   * waits again.
   */
  advance(ms: number): Promise<void>;
  /** How many calls of `keepAlive` keep the process alive now. */
  keepers(): number;
}

export interface ManualPorts extends Ports {
  readonly clock: ManualClock;
}

interface Timer {
  readonly dueMs: number;
  readonly task: () => void;
}

/** Where the wall clock of a manual clock begins: 2026-01-01T00:00:00Z. */
const wallStartMs = 1_767_225_600_000;

export function manualPorts(random: Partial<Random> = {}): ManualPorts {
  return { clock: manualClock(), random: { ...countingRandom(), ...random } };
}

function manualClock(): ManualClock {
  const timers = new Set<Timer>();
  const keepers = new Set<object>();
  let nowMs = 0;
  const next = (untilMs: number) =>
    [...timers].filter((timer) => timer.dueMs <= untilMs).sort((a, b) => a.dueMs - b.dueMs)[0];
  return {
    monotonicMs: () => nowMs,
    wallMs: () => wallStartMs + nowMs,
    startTimer(delayMs, task) {
      const timer = { dueMs: nowMs + Math.max(0, delayMs), task };
      timers.add(timer);
      return () => timers.delete(timer);
    },
    keepAlive() {
      const keeper = {};
      keepers.add(keeper);
      return () => keepers.delete(keeper);
    },
    keepers: () => keepers.size,
    async advance(ms) {
      const untilMs = nowMs + ms;
      await settle();
      for (let timer = next(untilMs); timer !== undefined; timer = next(untilMs)) {
        timers.delete(timer);
        nowMs = timer.dueMs;
        timer.task();
        await settle();
      }
      nowMs = untilMs;
      await settle();
    },
  };
}

/** Lets promise reactions run until all that remain wait for input or output. */
async function settle(): Promise<void> {
  const turns = 20;
  for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
}

function countingRandom(): Random {
  let count = 0;
  return {
    token: () => (++count).toString(16).padStart(32, "0"),
    uuid: (epochMs) => {
      const entropy = new Uint8Array(10);
      new DataView(entropy.buffer).setUint32(6, ++count);
      return uuidVersion7(epochMs, entropy);
    },
    fraction: () => 0.5,
  };
}
