/**
 * Where claims enter the index of what is due. While some transaction keeps dead rows from being removed, a claim from the
 * front walks over an entry for every effect that was claimed since: 20,000 of them cost about 4 ms. So a claim begins
 * where the last one ended, and this decides nothing: one that finds less than it wants looks again from the front, and
 * so does every claim after a second. What became due behind the place waits that long at most, and only while there is
 * more than enough before it.
 *
 * Ordered aggregates are gone through in the order of their names, each claim from behind the last one: so none of them,
 * and no tenant, is always first.
 */
import type { Clock } from "../../ports.ts";
import type { EffectWant } from "../outbox.ts";

const frontEveryMs = 1_000;

/** A row that was claimed. */
export interface ClaimedPlace {
  readonly effect: string;
  /** Null: not ordered. */
  readonly aggregate: AggregateName | null;
  readonly availableAt: number;
}

interface AggregateName {
  readonly tenant: string;
  readonly aggregate: string;
}

interface Place {
  readonly fromMs: number | null;
  /** When a claim last began at the front, by the monotonic clock. */
  readonly frontAt: number;
}

export interface PlacedWant extends EffectWant {
  /** Null: from the front. */
  readonly fromMs: number | null;
  /** Null: from the first. */
  readonly after: AggregateName | null;
}

export class ClaimPlaces {
  readonly #clock: Clock;
  readonly #places = new Map<string, Place>();
  readonly #aggregates = new Map<string, AggregateName>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Something may have become due behind the places. */
  reset(): void {
    this.#places.clear();
  }

  placed(wants: readonly EffectWant[]): readonly PlacedWant[] {
    const now = this.#clock.monotonicMs();
    return wants.map((want) => {
      const place = this.#places.get(want.effect);
      const fromMs = place !== undefined && now - place.frontAt < frontEveryMs ? place.fromMs : null;
      if (fromMs === null) this.#places.set(want.effect, { fromMs: null, frontAt: now });
      return { ...want, fromMs, after: this.#aggregates.get(want.effect) ?? null };
    });
  }

  /** Takes note of what was claimed, and answers what is still wanted from the front. */
  claimed(wants: readonly PlacedWant[], rows: readonly ClaimedPlace[]): readonly EffectWant[] {
    return wants.flatMap(({ effect, limit, starts = false, fromMs, after }) => {
      const own = rows.filter((row) => row.effect === effect);
      const missing = limit - own.length;
      this.#move(effect, own, missing > 0);
      const wasAll = fromMs === null && after === null;
      return wasAll || missing <= 0 ? [] : [{ effect, limit: missing, starts }];
    });
  }

  #move(effect: string, rows: readonly ClaimedPlace[], atEnd: boolean): void {
    const aggregates = rows.flatMap(({ aggregate }) => aggregate ?? []).toSorted(byBytes);
    const last = atEnd ? undefined : aggregates.at(-1);
    if (last === undefined) this.#aggregates.delete(effect);
    else this.#aggregates.set(effect, last);
    const place = this.#places.get(effect);
    const times = rows.flatMap(({ aggregate, availableAt }) => (aggregate === null ? [availableAt] : []));
    if (place === undefined || times.length === 0) return;
    this.#places.set(effect, { ...place, fromMs: Math.max(...times) });
  }
}

/** As the index has them. */
function byBytes(left: AggregateName, right: AggregateName): number {
  const compare = (one: string, other: string) => Buffer.compare(Buffer.from(one), Buffer.from(other));
  return compare(left.tenant, right.tenant) || compare(left.aggregate, right.aggregate);
}
