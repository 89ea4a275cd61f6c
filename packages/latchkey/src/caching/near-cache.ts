/** Copies in this process; the least recently used are dropped first. */
import type { RecordKey } from "../engine/record.ts";
import { type Copy, digestOf } from "./entry.ts";

export interface NearLimits {
  readonly entries: number;
  /** Maximum size of all answers together. */
  readonly bytes: number;
  readonly maxAgeMs: number;
}

interface Held {
  readonly copy: Copy;
  /** On the process's monotonic clock. */
  readonly deadlineMs: number;
  readonly bytes: number;
}

/** Approximate size of an entry without its answer. */
const entryBytes = 1_000;

export class NearCache {
  readonly #limits: NearLimits;
  /** Least recently used first. */
  readonly #held = new Map<string, Held>();
  #bytes = 0;

  constructor(limits: NearLimits) {
    this.#limits = limits;
  }

  /** The copy, and how long it may still be served. */
  get(key: RecordKey, nowMs: number): { readonly copy: Copy; readonly leftMs: number } | null {
    const digest = digestOf(key);
    const held = this.#held.get(digest);
    if (held === undefined) return null;
    this.#drop(digest);
    if (nowMs >= held.deadlineMs) return null;
    this.#put(digest, held);
    return { copy: held.copy, leftMs: held.deadlineMs - nowMs };
  }

  /** @param leftMs how long the copy may be served, counted from `nowMs` */
  set(copy: Copy, leftMs: number, nowMs: number): void {
    const digest = digestOf(copy.record);
    this.#drop(digest);
    const bytes = entryBytes + (copy.record.answer?.length ?? 0);
    if (bytes > this.#limits.bytes) return;
    const heldMs = Math.min(leftMs, this.#limits.maxAgeMs);
    const untilMs = copy.untilMs - (leftMs - heldMs);
    this.#put(digest, { copy: { ...copy, untilMs }, deadlineMs: nowMs + heldMs, bytes });
    for (const [oldest] of this.#held) {
      if (this.#held.size <= this.#limits.entries && this.#bytes <= this.#limits.bytes) break;
      this.#drop(oldest);
    }
  }

  delete(key: RecordKey): void {
    this.#drop(digestOf(key));
  }

  #put(digest: string, held: Held): void {
    this.#held.set(digest, held);
    this.#bytes += held.bytes;
  }

  #drop(digest: string): void {
    const held = this.#held.get(digest);
    if (held === undefined) return;
    this.#held.delete(digest);
    this.#bytes -= held.bytes;
  }
}
