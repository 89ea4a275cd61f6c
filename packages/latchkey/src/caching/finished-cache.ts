/** Copies of finished records, in this process and in Redis, and the choice of readings to copy. */
import type { RecordKey } from "../engine/record.ts";
import type { Clock } from "../ports.ts";
import type { Reading } from "../stores/life.ts";
import type { FinishedLookup } from "../stores/store.ts";
import type { Copy } from "./entry.ts";
import type { FarCache } from "./far-cache.ts";
import type { NearCache } from "./near-cache.ts";

export interface CacheParts {
  readonly clock: Clock;
  readonly near: NearCache | null;
  readonly far: FarCache | null;
  readonly maxAgeMs: number;
}

/** When the read of a record began, by the process's clock and by Redis's. */
export interface ReadFrom {
  readonly atMs: number;
  /** How many keys this process had removed by then. */
  readonly forgets: number;
  readonly far: Awaited<ReturnType<FarCache["before"]>>;
}

export class FinishedCache implements FinishedLookup {
  readonly #parts: CacheParts;
  /** The store's clock at the latest reading, and when that was. */
  #latest: { readonly storeMs: number; readonly atMs: number } | null = null;
  #forgets = 0;

  constructor(parts: CacheParts) {
    this.#parts = parts;
  }

  async look(key: RecordKey): Promise<Reading | null> {
    const { near, far, clock } = this.#parts;
    const [forgets, atMs] = [this.#forgets, clock.monotonicMs()];
    const close = near?.get(key, atMs) ?? null;
    const found = close ?? (await far?.get(key)) ?? null;
    if (found === null) return null;
    const { copy } = found;
    const nowMs = clock.monotonicMs();
    // `leftMs` counts from the look-up, so the time that the look-up took is subtracted.
    const leftMs = found.leftMs - (nowMs - atMs);
    if (leftMs <= 0) return null;
    const storeNow = this.#latest === null ? 0 : this.#latest.storeMs + (nowMs - this.#latest.atMs);
    const now = Math.max(copy.untilMs - leftMs, storeNow);
    if (close === null && forgets === this.#forgets) near?.set(copy, leftMs, nowMs);
    return { record: copy.record, now };
  }

  /** Call this before the store is read; `keep` needs the result. */
  async begin(key: RecordKey): Promise<ReadFrom> {
    const far = (await this.#parts.far?.before(key)) ?? null;
    return { far, forgets: this.#forgets, atMs: this.#parts.clock.monotonicMs() };
  }

  /** Copies the reading if its answer may be served again. Never rejects. */
  async keep({ record, now }: Reading, from: ReadFrom): Promise<void> {
    const { near, far, clock, maxAgeMs } = this.#parts;
    this.#latest = { storeMs: now, atMs: clock.monotonicMs() };
    if (record?.state !== "completed" && record?.state !== "failed") return;
    const lifeMs = Math.min(record.expiresAt - now, maxAgeMs);
    const leftMs = lifeMs - (clock.monotonicMs() - from.atMs);
    if (leftMs <= 0) return;
    const copy: Copy = { record, untilMs: now + lifeMs };
    if (from.forgets === this.#forgets) near?.set(copy, leftMs, clock.monotonicMs());
    if (from.far !== null) await far?.set(copy, lifeMs, from.far);
  }

  /** @throws {Error} when the copy may still be in Redis */
  async forget(key: RecordKey): Promise<void> {
    try {
      await this.#parts.far?.forget(key);
    } finally {
      // Readings still on their way are older than this: the count keeps them out.
      this.#forgets += 1;
      this.#parts.near?.delete(key);
    }
  }
}
