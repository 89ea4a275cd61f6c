/** The store's time, estimated between two reads. */
import type { RecordKey } from "../engine/record.ts";
import type { Clock } from "../ports.ts";
import type { Reading } from "../stores/life.ts";

export interface StoreTime {
  /**
   * The store's current time, or a later one: never an earlier one.
   *
   * @param key any key; reading it returns the store's time
   * @throws {StoreError} when the store had to be read and could not be.
   */
  now(key: RecordKey): Promise<number>;
  /** The estimate since the last read, without reading. 0 before the first read. */
  estimate(): number;
}

/** After a longer time the two clocks could have drifted apart too far. */
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
