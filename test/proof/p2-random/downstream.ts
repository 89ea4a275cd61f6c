/**
 * The other side: it keeps its own ledger, forgets keys after their window, refuses what was closed, and cannot be talked
 * into anything. What it sees is judged here: one key, one input; one place, one charge.
 */
import { EffectRefused, NotExecuted } from "../../../packages/latchkey/src/errors.ts";
import { dedupeWindowMs, type EffectKind } from "./config.ts";
import type { Report } from "./report.ts";

/** What every send carries. `by` differs between attempts, so that a send under another input is seen. */
export interface SendInput {
  readonly life: string;
  readonly place: string;
  readonly by: number;
}

export interface Charge {
  readonly id: number;
}

/** A send on its way. */
export interface Send {
  readonly kind: EffectKind;
  readonly key: string;
  readonly input: SendInput;
  readonly begunAtMs: number;
}

interface Entry extends Charge {
  readonly begunAtMs: number;
}

/** What a route's handler did on the other side, without steps. */
export interface DirectCharge {
  readonly life: string;
  readonly attempt: number;
  readonly nonce: number;
}

export class Downstream {
  readonly #report: Report;
  readonly #charges = new Map<string, Entry>();
  readonly #closed = new Set<string>();
  readonly #inputs = new Map<string, string>();
  /** The keys that each place was sent under, in order. */
  readonly #keys = new Map<string, string[]>();
  readonly #countAt = new Map<string, number>();
  readonly #direct = new Map<string, DirectCharge[]>();
  readonly #closedThrough = new Map<string, number>();
  readonly #lifeOf = new Map<number, string>();
  #last = 0;

  constructor(report: Report) {
    this.#report = report;
  }

  /** Somebody begins to send. */
  begin({ key, input }: Send): void {
    const text = JSON.stringify(input);
    const before = this.#inputs.get(key);
    if (before !== undefined) this.#report.reach("the same key sent again");
    if (before !== undefined && before !== text) {
      this.#report.fail("I7", `key of ${input.place} sent with ${text} after ${before}`);
    }
    this.#inputs.set(key, text);
    const place = `${input.life} ${input.place}`;
    const keys = this.#keys.get(place) ?? [];
    if (keys.includes(key)) return;
    for (const earlier of keys) {
      if (this.#closed.has(earlier) && !this.#charges.has(earlier)) continue;
      this.#report.fail("I7", `${place} is sent under a new key while its key before is not closed`);
    }
    if (keys.length > 0) this.#report.reach("closed downstream, sent under the next key");
    this.#keys.set(place, [...keys, key]);
  }

  /** @throws {EffectRefused} when it was closed */
  arrive({ kind, key, input, begunAtMs }: Send): Charge {
    if (this.#closed.has(key)) {
      this.#report.reach("a send refused as closed");
      throw new EffectRefused({ message: "closed", detail: { closed: true } });
    }
    const known = this.#charges.get(key);
    if (kind === "provider" && known !== undefined && begunAtMs < known.begunAtMs + dedupeWindowMs) {
      this.#report.reach("the provider de-duplicated a send");
      return { id: known.id };
    }
    const id = ++this.#last;
    this.#charges.set(key, { id, begunAtMs });
    this.#lifeOf.set(id, input.life);
    const place = `${input.life} ${input.place}`;
    const count = (this.#countAt.get(place) ?? 0) + 1;
    this.#countAt.set(place, count);
    if (count > 1) this.#report.fail("I7", `${place} was charged ${count} times (${kind})`);
    return { id };
  }

  find(key: string): Charge | null {
    const known = this.#charges.get(key);
    return known === undefined ? null : { id: known.id };
  }

  isClosed(key: string): boolean {
    return this.#closed.has(key);
  }

  /** Whether this charge was made for this life. */
  wasCharged(life: string, id: number): boolean {
    return this.#lifeOf.get(id) === life;
  }

  /** Atomic: from here on it is refused, or it has happened. */
  close(key: string): { readonly closed: true } | { readonly happened: Charge } {
    const happened = this.find(key);
    if (happened !== null) return { happened };
    this.#closed.add(key);
    return { closed: true };
  }

  /** How often this place was charged. */
  countAt(life: string, place: string): number {
    return this.#countAt.get(`${life} ${place}`) ?? 0;
  }

  /** @throws {NotExecuted} when this attempt was closed */
  chargeDirectly(charge: DirectCharge): void {
    const { life, attempt } = charge;
    if (attempt <= (this.#closedThrough.get(life) ?? 0)) throw new NotExecuted({ message: "closed" });
    this.#direct.set(life, [...this.directOf(life), charge]);
  }

  directOf(life: string): readonly DirectCharge[] {
    return this.#direct.get(life) ?? [];
  }

  /** No attempt up to this one can charge any more. */
  closeThrough(life: string, attempt: number): void {
    this.#closedThrough.set(life, Math.max(attempt, this.#closedThrough.get(life) ?? 0));
  }

  isClosedThrough(life: string, attempt: number): boolean {
    return (this.#closedThrough.get(life) ?? 0) >= attempt;
  }
}
