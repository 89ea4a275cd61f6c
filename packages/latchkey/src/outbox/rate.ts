/** Limits how many deliveries of an effect one process begins in any second. */

import type { AnyEffect } from "../effects/run-effect.ts";
import type { Clock } from "../ports.ts";

export interface Rate {
  /** How many more may begin now. */
  capacity(): number;
  /** How long until there is capacity again, in milliseconds; 0 while there is. */
  untilCapacityMs(): number;
  /** Takes permits. Each counts until it is given back or, if its delivery begins, for a second from then. */
  take(count: number): void;
  /** A delivery begins with one of the permits taken. */
  begin(): void;
  /** For deliveries that will not begin: each permit once, and none after its `begin`. */
  giveBack(count: number): void;
}

const windowMs = 1_000;
const rates = new WeakMap<AnyEffect, Rate>();

/** All dispatchers of an effect in one process share its rate. Null: there is no limit. */
export function rateOf(effect: AnyEffect, clock: Clock): Rate | null {
  const { perSecond } = effect.settings.limits;
  if (perSecond === null) return null;
  const rate = rates.get(effect) ?? createRate(clock, perSecond);
  rates.set(effect, rate);
  return rate;
}

function createRate(clock: Clock, perSecond: number): Rate {
  /** When the deliveries of the last second began, oldest first. */
  const begun: number[] = [];
  let taken = 0;
  const forget = () => {
    const from = clock.monotonicMs() - windowMs;
    while (begun.length > 0 && (begun[0] ?? 0) <= from) begun.shift();
  };
  return {
    capacity() {
      forget();
      return Math.max(0, perSecond - begun.length - taken);
    },
    untilCapacityMs() {
      forget();
      const [oldest] = begun;
      const full = begun.length + taken >= perSecond;
      return full && oldest !== undefined ? oldest + windowMs - clock.monotonicMs() : 0;
    },
    take(count) {
      taken += count;
    },
    begin() {
      taken -= 1;
      begun.push(clock.monotonicMs());
    },
    giveBack(count) {
      taken -= count;
    },
  };
}
