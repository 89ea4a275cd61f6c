/**
 * The positions that are explored, each by 64 bits of hash alone, with the number of schedules that lead on from it. That two
 * of two hundred million have the same has a chance of one in nine hundred.
 */
import type { Position } from "./moves.ts";

/** Each grows by itself, so that no more than one is there twice. */
const tables = 64;
/** Slots of a new table. */
const firstSlots = 1 << 10;
/** Fuller than this it grows. */
const loadMax = 0.85;

/** Two halves of a hash; the same object each time. */
const hash = { high: 0, low: 0 };

/** Hashes what makes the future of a position. */
export function hashOf({ place, nodes, held, running, left }: Position): typeof hash {
  let [alive, unanswered] = [0, 0];
  for (const node of nodes) {
    if (node?.isOver) continue;
    alive += 1;
    if (node === null || node.outcome === null) unanswered += 1;
  }
  hash.high = 0x9747b28c | 0;
  hash.low = 0x3c6ef372 | 0;
  mix(place.id);
  for (const node of nodes) mix(node === null ? 0 : node.id);
  if (held !== null) {
    mix(held.who + 1);
    mix(held.id);
    mix(held.result.reply);
    mix(held.sinceMs);
  }
  // A process whose request has ended is not interrupted any more; one that is alone is not left.
  const [crashes, lost] = unanswered === 0 ? [0, 0] : [left.crashes, left.lost];
  mix(alive < 2 && unanswered === 0 ? -1 : running);
  mix(((alive < 2 ? 0 : left.switches) << 24) | (crashes << 16) | (left.leaseEnds << 8) | lost);
  hash.high = finished(hash.high ^ hash.low);
  hash.low = finished(hash.low + Math.imul(hash.high, 0x9e3779b1));
  return hash;
}

/** One step of MurmurHash3 for one half, and of xxHash for the other. */
function mix(value: number): void {
  let part = Math.imul(value, 0xcc9e2d51);
  part = Math.imul((part << 15) | (part >>> 17), 0x1b873593);
  const high = hash.high ^ part;
  hash.high = (Math.imul((high << 13) | (high >>> 19), 5) + 0xe6546b64) | 0;
  const low = (hash.low + Math.imul(value, 0xc2b2ae3d)) | 0;
  hash.low = Math.imul((low << 17) | (low >>> 15), 0x27d4eb2f);
}

function finished(value: number): number {
  let part = value;
  part = Math.imul(part ^ (part >>> 16), 0x85ebca6b);
  part = Math.imul(part ^ (part >>> 13), 0xc2b2ae35);
  return part ^ (part >>> 16);
}

export interface Known {
  readonly size: number;
  /** How many schedules lead on; 0: it has not been explored. */
  get(high: number, low: number): number;
  set(high: number, low: number, count: number): void;
}

/** With counts; it grows. 16 bytes for each slot. */
export class Counted implements Known {
  readonly #tables = Array.from({ length: tables }, () => new Table());
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get(high: number, low: number): number {
    return this.#tableOf(high).get(high, low);
  }

  set(high: number, low: number, count: number): void {
    this.#tableOf(high).set(high, low, count);
    this.#size += 1;
  }

  #tableOf(high: number): Table {
    // The other half selects the slot.
    return this.#tables[high & (tables - 1)] as Table;
  }
}

class Table {
  #high = new Int32Array(firstSlots);
  #low = new Int32Array(firstSlots);
  /** 0: the slot is free. */
  #counts = new Float64Array(firstSlots);
  #size = 0;

  get(high: number, low: number): number {
    return this.#counts[this.#slotOf(high, low)] ?? 0;
  }

  set(high: number, low: number, count: number): void {
    if (this.#size >= this.#counts.length * loadMax) this.#grow();
    this.#put(high, low, count);
    this.#size += 1;
  }

  /** Its slot, or the free one where it belongs. */
  #slotOf(high: number, low: number): number {
    const mask = this.#counts.length - 1;
    let slot = low & mask;
    while (this.#counts[slot] !== 0 && (this.#low[slot] !== low || this.#high[slot] !== high)) {
      slot = (slot + 1) & mask;
    }
    return slot;
  }

  #put(high: number, low: number, count: number): void {
    const slot = this.#slotOf(high, low);
    this.#high[slot] = high;
    this.#low[slot] = low;
    this.#counts[slot] = count;
  }

  #grow(): void {
    const [high, low, counts] = [this.#high, this.#low, this.#counts];
    const slots = counts.length * 2;
    this.#high = new Int32Array(slots);
    this.#low = new Int32Array(slots);
    this.#counts = new Float64Array(slots);
    for (let slot = 0; slot < counts.length; slot++) {
      const count = counts[slot] ?? 0;
      if (count !== 0) this.#put(high[slot] ?? 0, low[slot] ?? 0, count);
    }
  }
}

/** Fuller than this, looking for a free slot takes long. */
const fullAt = 0.8;

/**
 * Without counts, and as large from the beginning as it will ever be: 5 bytes for each slot. Where a hash belongs is decided by
 * the first bits of one half; its last ones are kept, and the other half.
 */
export class Seen implements Known {
  readonly #sizeMax: number;
  readonly #high: Int32Array;
  readonly #low: Uint8Array;
  #size = 0;

  constructor(sizeMax: number) {
    const slots = Math.ceil(sizeMax / fullAt);
    this.#sizeMax = sizeMax;
    this.#high = new Int32Array(slots);
    this.#low = new Uint8Array(slots);
  }

  get size(): number {
    return this.#size;
  }

  get(high: number, low: number): number {
    return this.#high[this.#slotOf(high || 1, low)] === 0 ? 0 : 1;
  }

  set(high: number, low: number): void {
    if (this.#size >= this.#sizeMax) throw new RangeError(`harness: more than ${this.#sizeMax} positions`);
    const slot = this.#slotOf(high || 1, low);
    this.#high[slot] = high || 1;
    this.#low[slot] = low & 0xff;
    this.#size += 1;
  }

  /** Its slot, or the free one where it belongs. */
  #slotOf(high: number, low: number): number {
    const slots = this.#high.length;
    let slot = Math.floor(((low >>> 0) / 2 ** 32) * slots);
    while (this.#high[slot] !== 0 && (this.#high[slot] !== high || this.#low[slot] !== (low & 0xff))) {
      slot = slot + 1 === slots ? 0 : slot + 1;
    }
    return slot;
  }
}
