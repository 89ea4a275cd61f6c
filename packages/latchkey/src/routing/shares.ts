/** Divides a worker's capacity among stores: each gets an equal share first, and the rest goes to those that have more work. */
import type { Member, Members } from "./members.ts";

/** A store's result, and how much of each share it used. */
export interface Used<T> {
  readonly value: T;
  readonly used: readonly number[];
}

/**
 * Calls the stores until the capacity is used up or none of them has more work.
 *
 * @param limits the capacity for each kind
 * @param ask receives one store's share of each kind
 * @throws the first store's error when all fail
 */
export async function shareOut<Tx, T>(
  members: Members<Tx>,
  limits: readonly number[],
  ask: (member: Member<Tx>, shares: readonly number[]) => Promise<Used<T>>,
): Promise<readonly T[]> {
  const left = [...limits];
  const results: T[] = [];
  /** For each kind, the stores that may have more of it. */
  let backlogged: readonly (readonly Member<Tx>[])[] = limits.map(() => []);
  const rotated = members.rotated();
  backlogged = limits.map(() => rotated);
  for (;;) {
    const shares = sharesOf(rotated, backlogged, left);
    if (shares.size === 0) return results;
    let answered: ReadonlyMap<Member<Tx>, Used<T>>;
    try {
      answered = await members.ask([...shares.keys()], (member) => ask(member, shares.get(member) ?? []));
    } catch (error) {
      if (results.length === 0) throw error;
      return results;
    }
    for (const { value } of answered.values()) results.push(value);
    backlogged = backlogged.map((those, kind) =>
      those.filter((member) => {
        const share = shares.get(member)?.[kind] ?? 0;
        const used = answered.get(member)?.used[kind] ?? 0;
        left[kind] = (left[kind] ?? 0) - used;
        return share === 0 ? answered.has(member) || !shares.has(member) : used >= share;
      }),
    );
  }
}

/** Equal shares of the remaining capacity; the remainder goes to the first stores. Stores without a share are left out. */
function sharesOf<Tx>(
  rotated: readonly Member<Tx>[],
  backlogged: readonly (readonly Member<Tx>[])[],
  left: readonly number[],
): ReadonlyMap<Member<Tx>, readonly number[]> {
  const shares = new Map<Member<Tx>, number[]>();
  for (const [kind, those] of backlogged.entries()) {
    const room = Math.max(0, left[kind] ?? 0);
    for (const [at, member] of those.entries()) {
      const share = Math.floor(room / those.length) + (at < room % those.length ? 1 : 0);
      if (share === 0) continue;
      const own = shares.get(member) ?? backlogged.map(() => 0);
      own[kind] = share;
      shares.set(member, own);
    }
  }
  return new Map(
    rotated.flatMap((member) => (shares.has(member) ? [[member, shares.get(member) ?? []]] : [])),
  );
}

/** Takes one row of each list in turn, up to `limit`, so that no store's backlog hides another's. */
export function interleave<T>(lists: readonly (readonly T[])[], limit: number): readonly T[] {
  const all: T[] = [];
  const longest = Math.max(0, ...lists.map(({ length }) => length));
  for (let at = 0; at < longest && all.length < limit; at++) {
    all.push(...lists.flatMap((list) => (at < list.length ? [list[at] as T] : [])));
  }
  return all.slice(0, limit);
}

/** Merges sorted pages into one of at most `limit` rows. */
export function mergePages<T>(
  lists: readonly (readonly T[])[],
  limit: number,
  orderOf: (row: T) => readonly [number, string],
): readonly T[] {
  const rows = lists.flat().map((row) => ({ row, order: orderOf(row) }));
  rows.sort(({ order: [a, x] }, { order: [b, y] }) => a - b || (x < y ? -1 : x > y ? 1 : 0));
  return rows.slice(0, limit).map(({ row }) => row);
}
