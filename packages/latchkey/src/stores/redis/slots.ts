/**
 * Hash tags of the partitions. They are part of the stored keys: if a tag changed, the records under it would not be found.
 * Partition `i` of `n` lies in the i-th of n equal parts of the cluster's 16 384 slots, so that nodes which share the slots
 * evenly share the records evenly.
 */

const slotCount = 16_384;
/** With more, searching through all partitions costs more than a better division is worth. */
export const partitionsMax = 512;

/** The slot that Redis Cluster puts `tag` into: CRC-16 (XMODEM) of its bytes. */
export function slotOf(tag: string): number {
  let crc = 0;
  for (const byte of Buffer.from(tag)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ 0x1021;
    crc &= 0xffff;
  }
  return crc % slotCount;
}

/** One tag for each of `count` partitions. */
export function partitionTags(count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => tagIn(index, count));
}

function tagIn(index: number, count: number): string {
  const from = Math.floor((index * slotCount) / count);
  const to = Math.floor(((index + 1) * slotCount) / count);
  for (let suffix = 0; ; suffix++) {
    const tag = `${index}.${suffix.toString(36)}`;
    const slot = slotOf(tag);
    if (slot >= from && slot < to) return tag;
  }
}
