/** Something that must not be, by the name of what it violates. */
export class Violation extends Error {
  override readonly name = "Violation";
  readonly invariant: string;

  constructor(invariant: string, what: string) {
    super(`${invariant}: ${what}`);
    this.invariant = invariant;
  }
}

/** @throws {Violation} when it does not hold */
export function hold(invariant: string, holds: boolean, what: string): void {
  if (!holds) throw new Violation(invariant, what);
}
