/** The other side, with a ledger of its own: one for each store, and it forgets nothing. */
import { EffectRefused } from "../../../../packages/latchkey/src/errors.ts";

/** What every send carries. */
export interface SendInput {
  /** What it is for, in words that are the same on every store. */
  readonly place: string;
}

export interface Charge {
  readonly of: string;
  /** Which charge of this place it was. */
  readonly number: number;
}

export class Downstream {
  readonly #deduplicates: boolean;
  readonly #charges = new Map<string, Charge>();
  readonly #closed = new Set<string>();
  readonly #sent: string[] = [];
  readonly #direct: string[] = [];

  constructor(deduplicates: boolean) {
    this.#deduplicates = deduplicates;
  }

  /** @throws {EffectRefused} when it was closed */
  charge(key: string, { place }: SendInput): Charge {
    if (this.#closed.has(key)) throw new EffectRefused({ message: "closed", detail: { closed: true } });
    const known = this.#charges.get(key);
    if (this.#deduplicates && known !== undefined) return known;
    this.#sent.push(place);
    const charge = { of: place, number: this.#sent.filter((one) => one === place).length };
    this.#charges.set(key, charge);
    return charge;
  }

  find(key: string): Charge | null {
    return this.#charges.get(key) ?? null;
  }

  close(key: string): { readonly closed: true } | { readonly happened: Charge } {
    const happened = this.find(key);
    if (happened !== null) return { happened };
    this.#closed.add(key);
    return { closed: true };
  }

  /** What a handler without steps does there. */
  act(recordId: string): void {
    this.#direct.push(recordId);
  }

  actedFor(recordId: string): boolean {
    return this.#direct.includes(recordId);
  }

  /** All that has happened here, in no order. */
  all() {
    return { charges: this.#sent.toSorted(), closed: this.#closed.size, direct: this.#direct.length };
  }
}
