/** Makes a failing list of choices smaller: shorter first, then with lower numbers. */

/** The list that was really used when it fails in the same way; null when it does not. */
export type StillFails = (list: readonly number[]) => Promise<readonly number[] | null>;

/** @param triesMax each try is one whole schedule */
export async function shrunk(
  list: readonly number[],
  stillFails: StillFails,
  triesMax: number,
): Promise<readonly number[]> {
  let best = list;
  let tries = 0;
  const attempt = async (candidate: readonly number[]): Promise<boolean> => {
    if (tries >= triesMax || isSmaller(best, candidate)) return false;
    tries += 1;
    const used = await stillFails(candidate);
    if (used === null) return false;
    const smaller = isSmaller(candidate, used) ? candidate : used;
    if (!isSmaller(smaller, best)) return false;
    best = smaller;
    return true;
  };
  for (let progress = true; progress && tries < triesMax; ) {
    const before = best;
    await withoutTail(() => best, attempt);
    await withoutParts(() => best, attempt);
    await withLowerNumbers(() => best, attempt);
    progress = best !== before;
  }
  return best;
}

type Attempt = (candidate: readonly number[]) => Promise<boolean>;

/** Zeros at the end say nothing. */
function isSmaller(left: readonly number[], right: readonly number[]): boolean {
  if (left.length !== right.length) return left.length < right.length;
  for (const [at, value] of left.entries()) {
    const other = right[at] ?? 0;
    if (value !== other) return value < other;
  }
  return false;
}

async function withoutTail(best: () => readonly number[], attempt: Attempt): Promise<void> {
  for (let cut = best().length; cut >= 1; cut = Math.floor(cut / 2)) {
    while (best().length > 0 && (await attempt(best().slice(0, Math.max(0, best().length - cut)))));
  }
}

async function withoutParts(best: () => readonly number[], attempt: Attempt): Promise<void> {
  for (let size = Math.min(32, best().length); size >= 1; size = Math.floor(size / 2)) {
    for (let at = best().length - size; at >= 0; at -= size) {
      const list = best();
      await attempt([...list.slice(0, at), ...list.slice(at + size)]);
    }
  }
}

/** Parts of it become nothing but zeros first: most numbers do not matter. */
async function withLowerNumbers(best: () => readonly number[], attempt: Attempt): Promise<void> {
  for (let size = 16; size >= 1; size = Math.floor(size / 2)) {
    for (let at = 0; at < best().length; at += size) {
      const isIn = (index: number) => index >= at && index < at + size;
      if (!best().some((value, index) => isIn(index) && value > 0)) continue;
      await attempt(best().map((value, index) => (isIn(index) ? 0 : value)));
    }
  }
  for (let at = 0; at < best().length; at++) {
    const value = best()[at] ?? 0;
    for (const lower of value < 2 ? [] : [1, Math.floor(value / 2), value - 1]) {
      if (await attempt(best().map((one, index) => (index === at ? lower : one)))) break;
    }
  }
}
