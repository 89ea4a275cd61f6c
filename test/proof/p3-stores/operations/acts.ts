/** What handlers and the other side do in one step: drawn by who asks, so that the order in which they ask does not matter. */

export class Acts {
  readonly #numbers: readonly number[];

  constructor(numbers: readonly number[]) {
    this.#numbers = numbers;
  }

  /** A whole number in [0, below); 0 is the plainest, and what happens where there are no numbers. */
  choose(below: number, ...who: readonly (string | number)[]): number {
    if (this.#numbers.length === 0) return 0;
    const hash = hashOf(who.join(" "));
    return Math.floor((this.#numbers[hash % this.#numbers.length] ?? 0) / 7 + hash / 31) % below;
  }

  /** True once in `n`, about. */
  oneIn(n: number, ...who: readonly (string | number)[]): boolean {
    return this.choose(n, ...who) === n - 1;
  }
}

/** FNV-1a. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5 | 0;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash >>> 0;
}
