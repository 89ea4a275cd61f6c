/** Copies of finished records, near and far, and what of the store's readings becomes one. */
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

/** When a record began to be read: by the process's clock, and by Redis's. */
export interface ReadFrom {
  readonly atMs: number;
  /** How many keys this process had forgotten. */
  readonly forgets: number;
  readonly far: Awaited<ReturnType<FarCache["before"]>>;
}

export class FinishedCache implements FinishedLookup {
  readonly #parts: CacheParts;
  /** The latest time of the store that was seen, and when. */
  #told: { readonly storeMs: number; readonly atMs: number } | null = null;
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
    // What it had left when it was found, or when it was asked for, is less by now.
    const leftMs = found.leftMs - (nowMs - atMs);
    if (leftMs <= 0) return null;
    const told = this.#told === null ? 0 : this.#told.storeMs + (nowMs - this.#told.atMs);
    const now = Math.max(copy.untilMs - leftMs, told);
    if (close === null && forgets === this.#forgets) near?.set(copy, leftMs, nowMs);
    return { record: copy.record, now };
  }

  /** To be called before the store is read, for `keep`. */
  async begin(key: RecordKey): Promise<ReadFrom> {
    const far = (await this.#parts.far?.before(key)) ?? null;
    return { far, forgets: this.#forgets, atMs: this.#parts.clock.monotonicMs() };
  }

  /** Keeps what the store returned, where it may be served again. Never rejects. */
  async keep({ record, now }: Reading, from: ReadFrom): Promise<void> {
    const { near, far, clock, maxAgeMs } = this.#parts;
    this.#told = { storeMs: now, atMs: clock.monotonicMs() };
    if (record?.state !== "completed" && record?.state !== "failed") return;
    const lifeMs = Math.min(record.expiresAt - now, maxAgeMs);
    const leftMs = lifeMs - (clock.monotonicMs() - from.atMs);
    if (leftMs <= 0) return;
    const copy: Copy = { record, untilMs: now + lifeMs };
    if (from.forgets === this.#forgets) near?.set(copy, leftMs, clock.monotonicMs());
    if (from.far !== null) await far?.set(copy, lifeMs, from.far);
  }

  /** @throws {Error} when the copy in Redis may be there still */
  async forget(key: RecordKey): Promise<void> {
    try {
      await this.#parts.far?.forget(key);
    } finally {
      // What others are about to bring was read before.
      this.#forgets += 1;
      this.#parts.near?.delete(key);
    }
  }
}
