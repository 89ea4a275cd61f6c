/**
 * Where claims enter the index of what is due. While some transaction keeps dead rows from being removed, a claim from the
 * front walks over an entry for every effect that was claimed since: 20,000 of them cost about 4 ms. So a claim begins
 * where the last one ended, and this decides nothing: one that finds less than it wants looks again from the front, and
 * so does every claim after a second. What became due behind the place waits that long at most, and only while there is
 * more than enough before it.
 */
import type { Clock } from "../../ports.ts";
import type { EffectWant } from "../outbox.ts";

const frontEveryMs = 1_000;

/** A row that was claimed. */
export interface ClaimedPlace {
  readonly effect: string;
  /** Of an ordered aggregate the next one may lie anywhere behind. */
  readonly ordered: boolean;
  readonly availableAt: number;
}

interface Place {
  readonly fromMs: number | null;
  /** When a claim last began at the front, by the monotonic clock. */
  readonly frontAt: number;
}

export interface PlacedWant extends EffectWant {
  /** Null: from the front. */
  readonly fromMs: number | null;
}

export class ClaimPlaces {
  readonly #clock: Clock;
  readonly #places = new Map<string, Place>();

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
      return { ...want, fromMs };
    });
  }

  /** Takes note of what was claimed, and answers what is still wanted from the front. */
  claimed(wants: readonly PlacedWant[], rows: readonly ClaimedPlace[]): readonly EffectWant[] {
    return wants.flatMap(({ effect, limit, starts = false, fromMs }) => {
      const own = rows.filter((row) => row.effect === effect);
      this.#move(effect, own);
      const missing = limit - own.length;
      return fromMs === null || missing <= 0 ? [] : [{ effect, limit: missing, starts }];
    });
  }

  #move(effect: string, rows: readonly ClaimedPlace[]): void {
    const place = this.#places.get(effect);
    if (place === undefined || rows.length === 0) return;
    const fromMs = rows.some(({ ordered }) => ordered)
      ? null
      : Math.max(...rows.map(({ availableAt }) => availableAt));
    this.#places.set(effect, { ...place, fromMs });
  }
}
