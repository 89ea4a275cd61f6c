/**
 * Races many promises against one that stays pending for long. `Promise.race` would keep the outcome of each in memory, with
 * its records, until that one settles.
 */
export class UntilOver<T> {
  readonly #waiting = new Set<(value: T) => void>();
  #over: { readonly value: T } | null = null;

  /** @param over never rejects */
  constructor(over: Promise<T>) {
    void over.then((value) => {
      this.#over = { value };
      for (const end of this.#waiting) end(value);
      this.#waiting.clear();
    });
  }

  /** The value of the promise that settles first; a later rejection of `one` is ignored. */
  or<U>(one: Promise<U>): Promise<T | U> {
    return new Promise((resolve, reject) => {
      const over = this.#over;
      if (over !== null) resolve(over.value);
      else this.#waiting.add(resolve);
      const forget = () => this.#waiting.delete(resolve);
      one.then(
        (value) => {
          forget();
          resolve(value);
        },
        (error: unknown) => {
          forget();
          reject(error);
        },
      );
    });
  }
}
