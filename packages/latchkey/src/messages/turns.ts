/** Who runs beside whom: most work runs together; some runs while nothing else does, in the order in which it came. */
export class Turns {
  readonly #together = new Set<Promise<unknown>>();
  /** Ends when the last of those that were asked to run alone has. */
  #alone: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  /** Begins at once, unless something runs alone or waits to. */
  async together<T>(work: () => Promise<T>): Promise<T> {
    while (this.#waiting > 0) await this.#alone;
    const running = work();
    const settled = running.catch(() => {});
    this.#together.add(settled);
    try {
      return await running;
    } finally {
      this.#together.delete(settled);
    }
  }

  /** Begins when all that has begun is over; until it is over nothing else begins. */
  async alone<T>(work: () => Promise<T>): Promise<T> {
    this.#waiting += 1;
    const mine = this.#alone.then(async () => {
      await Promise.all(this.#together);
      return work();
    });
    this.#alone = mine.catch(() => {});
    try {
      return await mine;
    } finally {
      this.#waiting -= 1;
    }
  }
}
