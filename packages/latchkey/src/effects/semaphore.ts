/** Limits how many calls of an effect one process runs at once. */

export interface Semaphore {
  /** Waits for a permit. Null: `signal` aborted first. Releasing a permit twice does nothing. */
  take(signal: AbortSignal): Promise<(() => void) | null>;
  /** How many permits are free now. */
  free(): number;
  /** Takes up to `most` of the permits that are free now, without waiting. */
  takeFree(most: number): readonly (() => void)[];
}

export function createSemaphore(limit: number): Semaphore {
  let taken = 0;
  const waiting: (() => void)[] = [];
  const giveBack = () => {
    taken -= 1;
    waiting.shift()?.();
  };
  const permit = () => {
    taken += 1;
    let given = false;
    return () => {
      if (!given) giveBack();
      given = true;
    };
  };
  return {
    async take(signal) {
      while (taken >= limit) {
        if (signal.aborted) return null;
        await turn(waiting, signal);
      }
      return permit();
    },
    free: () => Math.max(0, limit - taken),
    takeFree: (most) => Array.from({ length: Math.max(0, Math.min(most, limit - taken)) }, permit),
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
