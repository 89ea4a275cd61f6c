/** What all users of one pool in this process share. */
import type { PgConnector, PgPool } from "./client.ts";
import { ConcurrencyLimit } from "./concurrency-limit.ts";
import { RepeatedStatements } from "./statement-names.ts";

export interface PoolShare {
  readonly gate: ConcurrencyLimit;
  /** Clients that heartbeats hold. */
  reserved: number;
  transactionsMax: number;
  readonly repeated: RepeatedStatements;
  /** Clients that are checked out of the pool, by any code. */
  readonly out: Set<object>;
  /** Whether the missing `connectionTimeoutMillis` has been reported. */
  warned: boolean;
}

const shares = new WeakMap<object, PoolShare>();

export function shareOf(pool: PgPool): PoolShare {
  const known = shares.get(pool);
  if (known !== undefined) return known;
  const share: PoolShare = {
    // One client stays free for handlers that use the pool beside their `tx`, if the pool has more than one.
    gate: new ConcurrencyLimit(() => Math.max(1, share.transactionsMax - share.reserved)),
    reserved: 0,
    transactionsMax: pool.options?.max === undefined ? Number.POSITIVE_INFINITY : pool.options.max - 1,
    repeated: new RepeatedStatements(),
    out: new Set(),
    warned: false,
  };
  watch(pool as PgPool & PgConnector, share.out);
  shares.set(pool, share);
  return share;
}

/** A client that hangs while it connects is not out: it has never been handed over. */
function watch(pool: PgConnector, out: Set<object>): void {
  if (typeof pool.on !== "function") return;
  pool.on("acquire", (client) => out.add(client));
  pool.on("release", (_error, client) => out.delete(client));
  pool.on("remove", (client) => out.delete(client));
}
