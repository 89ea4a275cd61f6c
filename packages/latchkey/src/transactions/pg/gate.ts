import { StoreError } from "../../errors.ts";
import type { Clock } from "../../ports.ts";

/** Lets at most so many through at once; the others wait in line. */
export class Gate {
  readonly #limit: () => number;
  readonly #waiting = new Set<() => void>();
  #inside = 0;

  /** @param limit asked at every change, so it may change meanwhile */
  constructor(limit: () => number) {
    this.#limit = limit;
  }

  /**
   * Waits for a place; returns the function that gives it back.
   *
   * @throws {StoreError} `not_sent` after `timeoutMs` in line
   */
  async enter(clock: Clock, timeoutMs: number): Promise<() => void> {
    if (this.#waiting.size > 0 || this.#inside >= this.#limit()) await this.#stand(clock, timeoutMs);
    else this.#inside += 1;
    let left = false;
    return () => {
      if (left) return;
      left = true;
      this.#inside -= 1;
      this.admit();
    };
  }

  /** Lets in whom the limit allows now. */
  admit(): void {
    for (const enter of this.#waiting) {
      if (this.#inside >= this.#limit()) return;
      enter();
    }
  }

  #stand(clock: Clock, timeoutMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const enter = () => {
        this.#waiting.delete(enter);
        cancel();
        this.#inside += 1;
        resolve();
      };
      const cancel = clock.startTimer(timeoutMs, () => {
        this.#waiting.delete(enter);
        const message = `No place among the running transactions became free within ${timeoutMs} ms`;
        reject(new StoreError("not_sent", { message }));
      });
      this.#waiting.add(enter);
    });
  }
}
