/**
 * Everything that a schedule decides is a number from one list. Any list is a schedule: a number that is too large wraps,
 * and where the list ends the plainest thing happens. So a list can be cut and lowered, and stays a schedule.
 */
import type { Draw } from "../harness/seeded.ts";

export class Choices {
  /** What was decided, in order: given again, the same happens. */
  readonly made: number[] = [];
  readonly #draw: Draw | null;
  readonly #given: readonly number[];

  private constructor(draw: Draw | null, given: readonly number[]) {
    this.#draw = draw;
    this.#given = given;
  }

  static drawn(draw: Draw): Choices {
    return new Choices(draw, []);
  }

  static given(list: readonly number[]): Choices {
    return new Choices(null, list);
  }

  /** From here on the list has nothing to say. */
  get exhausted(): boolean {
    return this.#draw === null && this.made.length >= this.#given.length;
  }

  /** A whole number in [0, below); 0 is the plainest. */
  choose(below: number): number {
    const chosen =
      this.#draw === null ? (this.#given[this.made.length] ?? 0) % below : this.#draw.below(below);
    this.made.push(chosen);
    return chosen;
  }

  pick<T>(from: readonly T[]): T {
    const one = from[this.choose(from.length)];
    if (one === undefined) throw new RangeError("Nothing to pick from");
    return one;
  }

  /** True once in `n`, about; never where the list has ended. */
  oneIn(n: number): boolean {
    return this.choose(n) === n - 1;
  }
}
