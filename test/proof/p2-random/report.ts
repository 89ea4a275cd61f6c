/** What one schedule says of itself: what must not be, what was reached, and a hash of all that happened. */

export interface Violation {
  /** I1 to I15, L1 to L5, or `harness`. */
  readonly invariant: string;
  readonly what: string;
}

/** The same numbers make the same hash, in the same order (FNV-1a on 32 bits). */
export class Trace {
  #hash = 0x811c9dc5 | 0;
  /** Null unless somebody wants to read it. */
  readonly lines: string[] | null;

  constructor(readable: boolean) {
    this.lines = readable ? [] : null;
  }

  get hash(): number {
    return this.#hash >>> 0;
  }

  mix(value: number): void {
    this.#hash = Math.imul(this.#hash ^ value, 0x01000193);
  }

  mixText(text: string): void {
    let hash = this.#hash;
    for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
    this.#hash = hash;
  }

  say(line: () => string): void {
    this.lines?.push(line());
  }
}

export class Report {
  readonly trace: Trace;
  readonly reached = new Map<string, number>();
  readonly faults = new Map<string, number>();
  faultsCount = 0;
  #violation: Violation | null = null;

  constructor(readable: boolean) {
    this.trace = new Trace(readable);
  }

  get violation(): Violation | null {
    return this.#violation;
  }

  /** The first one stays. */
  fail(invariant: string, what: string): void {
    if (this.#violation !== null) return;
    this.#violation = { invariant, what };
    this.trace.say(() => `→ ${invariant}: ${what}`);
  }

  reach(what: string): void {
    this.reached.set(what, (this.reached.get(what) ?? 0) + 1);
  }

  fault(kind: string): void {
    this.faultsCount += 1;
    this.faults.set(kind, (this.faults.get(kind) ?? 0) + 1);
  }
}
