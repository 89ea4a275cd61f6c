/** Limits how many calls of an effect one process runs at once. */

export interface Semaphore {
  /** Waits for a permit. Null: `signal` aborted first. Releasing a permit twice does nothing. */
  take(signal: AbortSignal): Promise<(() => void) | null>;
  /** How many permits are free now. */
  free(): number;
  /** Takes up to `most` of the permits that are free now, without waiting, and returns how many. */
  takeFree(most: number): number;
  /** Gives back permits of `takeFree`, each once: one given back twice lets too many calls run. */
  giveBack(count: number): void;
}

export function createSemaphore(limit: number): Semaphore {
  let taken = 0;
  const waiting: (() => void)[] = [];
  const giveBack = (count: number) => {
    taken -= count;
    for (const done of waiting.splice(0, count)) done();
  };
  return {
    async take(signal) {
      while (taken >= limit) {
        if (signal.aborted) return null;
        await turn(waiting, signal);
      }
      taken += 1;
      let held = 1;
      return () => {
        giveBack(held);
        held = 0;
      };
    },
    free: () => limit - taken,
    takeFree(most) {
      const count = Math.min(most, limit - taken);
      taken += count;
      return count;
    },
    giveBack,
  };
}

/** Resolves when a permit may be free, or `signal` aborts. */
function turn(waiting: (() => void)[], signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      signal.removeEventListener("abort", leave);
      resolve();
    };
    const leave = () => {
      const at = waiting.indexOf(done);
      if (at >= 0) waiting.splice(at, 1);
      resolve();
    };
    waiting.push(done);
    signal.addEventListener("abort", leave, { once: true });
  });
}
