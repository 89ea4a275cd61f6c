/** The store's time, between two looks at it. */
import type { RecordKey } from "../engine/record.ts";
import type { Clock } from "../ports.ts";
import type { Reading } from "../stores/life.ts";

export interface StoreTime {
  /**
   * The store's time of now, or later: never earlier.
   *
   * @param key any key; the store is asked by reading it
   * @throws {StoreError} when the store had to be asked and could not be.
   */
  now(key: RecordKey): Promise<number>;
  /** As it was last known to go on, without asking. */
  estimate(): number;
}

/** For longer, the two clocks could drift apart by more than matters. */
const goodForMs = 1_000;

export function createStoreTime(clock: Clock, read: (key: RecordKey) => Promise<Reading>): StoreTime {
  let known: { readonly askedAtMs: number; readonly now: number } | null = null;
  const estimate = () => (known === null ? 0 : known.now + (clock.monotonicMs() - known.askedAtMs));
  return {
    async now(key) {
      if (known === null || clock.monotonicMs() - known.askedAtMs >= goodForMs) {
        const askedAtMs = clock.monotonicMs();
        known = { askedAtMs, now: (await read(key)).now };
      }
      return estimate();
    },
    estimate,
  };
}
