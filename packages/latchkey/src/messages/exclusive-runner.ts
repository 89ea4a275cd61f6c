/** Runs most work concurrently, and some of it alone, while nothing else runs; all in the order of the calls. */
export class ExclusiveRunner {
  /** All concurrent work that has not ended, whether it has begun or not. */
  readonly #together = new Set<Promise<unknown>>();
  /** The latest work that is to run alone; null once it has ended. */
  #alone: Promise<unknown> | null = null;

  /** Begins `work` when all exclusive work of earlier calls has ended, which is mostly at once. */
  async together<T>(work: () => Promise<T>): Promise<T> {
    const running = this.#alone === null ? work() : this.#alone.then(work);
    const over = running.catch(() => {});
    this.#together.add(over);
    try {
      return await running;
    } finally {
      this.#together.delete(over);
    }
  }

  /** Begins `work` when all work of earlier calls has ended; no work of later calls begins before it ends. */
  async alone<T>(work: () => Promise<T>): Promise<T> {
    const running = Promise.all([this.#alone, ...this.#together]).then(work);
    const over = running.catch(() => {});
    this.#alone = over;
    try {
      return await running;
    } finally {
      if (this.#alone === over) this.#alone = null;
    }
  }
}
