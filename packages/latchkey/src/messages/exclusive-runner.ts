/** Who runs beside whom: most work runs together; some runs while nothing else does. Each in the order in which it came. */
export class ExclusiveRunner {
  /** Of what is to run together, all that is not over, whether it has begun or not. */
  readonly #together = new Set<Promise<unknown>>();
  /** The last that was asked to run alone; null when it is over. */
  #alone: Promise<unknown> | null = null;

  /** Begins when all that was to run alone before it is over: mostly at once. */
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

  /** Begins when all that came before it is over; until it is over nothing that comes later begins. */
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
