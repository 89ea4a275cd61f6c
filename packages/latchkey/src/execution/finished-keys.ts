/**
 * The keys that this process has recently seen finished. This is only a hint: such a key is read first, in one round trip,
 * before a transaction is opened for it, and the decision is based on that reading.
 */
import type { RecordKey } from "../engine/record.ts";

/** A power of two: 64 KiB of hashes. A key replaces another one with the same place. */
const places = 16_384;

/** Two keys with the same hash only cost an unnecessary read. */
export class FinishedKeys {
  /** Null until the first key. */
  #hashes: Int32Array | null = null;

  note(key: RecordKey): void {
    const hash = hashOf(key);
    this.#hashes ??= new Int32Array(places);
    this.#hashes[hash & (places - 1)] = hash;
  }

  has(key: RecordKey): boolean {
    if (this.#hashes === null) return false;
    const hash = hashOf(key);
    return this.#hashes[hash & (places - 1)] === hash;
  }
}

/** FNV-1a, over code units; never 0, which marks an empty place. */
function hashOf({ tenant, scope, key }: RecordKey): number {
  const hash = mixed(mixed(mixed(0x811c9dc5 | 0, key), scope), tenant);
  return hash === 0 ? 1 : hash;
}

function mixed(start: number, text: string): number {
  let hash = start;
  for (let index = 0; index < text.length; index++) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  return hash;
}
