/** Everything drawn in a proof comes from one 64-bit seed (SplitMix64, Steele, Lea and Flood 2014). */

const mask = (1n << 64n) - 1n;

/** One step of SplitMix64 on BigInt: slow, for seeds. */
function mixed(value: bigint): bigint {
  let z = (value + 0x9e37_79b9_7f4a_7c15n) & mask;
  z = ((z ^ (z >> 30n)) * 0xbf58_476d_1ce4_e5b9n) & mask;
  z = ((z ^ (z >> 27n)) * 0x94d0_49bb_1331_11ebn) & mask;
  return z ^ (z >> 31n);
}

/** The seed of the n-th run of a sitting: any run can be shown again alone. */
export function seedOf(seed: bigint, run: number): bigint {
  return mixed(seed ^ mixed(BigInt(run)));
}

export interface Draw {
  /** A whole number in [0, below). */
  below(below: number): number;
  /** A number in [0, 1). */
  fraction(): number;
  pick<T>(from: readonly T[]): T;
  /** True once in `n`, about. */
  oneIn(n: number): boolean;
}

/** sfc32 (PractRand), seeded with both halves: 32-bit arithmetic alone, so that ten million runs are cheap. */
export function drawFrom(seed: bigint): Draw {
  const start = mixed(seed);
  let a = Number(start & 0xffff_ffffn) | 0;
  let b = Number(start >> 32n) | 0;
  let c = Number(seed & 0xffff_ffffn) | 0;
  let count = 1;
  const next = (): number => {
    const t = (((a + b) | 0) + count) | 0;
    count = (count + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (c << 21) | (c >>> 11);
    c = (c + t) | 0;
    return t >>> 0;
  };
  for (let warm = 0; warm < 12; warm++) next();
  const fraction = () => next() / 0x1_0000_0000;
  const below = (limit: number) => Math.floor(fraction() * limit);
  return {
    fraction,
    below,
    pick<T>(from: readonly T[]): T {
      const one = from[below(from.length)];
      if (one === undefined) throw new RangeError("Nothing to pick from");
      return one;
    },
    oneIn: (n) => below(n) === 0,
  };
}
