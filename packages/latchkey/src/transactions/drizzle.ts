/** Transactions through Drizzle: handlers get Drizzle's own `tx`. */

import { type DrizzlePgClient, pgStandIn } from "./drizzle/pg-stand-in.ts";
import { pgliteStandIn } from "./drizzle/pglite-stand-in.ts";
import type { DrizzleDatabase, DrizzleTx, StandIn } from "./drizzle/session.ts";
import { workThroughDrizzle } from "./drizzle/session.ts";
import { pgBridge } from "./pg/bridge.ts";
import type { PgPool } from "./pg/client.ts";
import { openConnections, type PgOptions } from "./pg/options.ts";
import { pgliteBridge } from "./pglite/bridge.ts";
import type { PgliteDatabase } from "./pglite/database.ts";
import type { TransactionBridge } from "./transaction.ts";

export type { DrizzleDatabase, DrizzleTx };

export interface DrizzleOptions<D extends DrizzleDatabase> extends Omit<PgOptions<PgPool>, "pool"> {
  /**
   * A database of `drizzle-orm/node-postgres` on a `pg` Pool, or of `drizzle-orm/pglite`, in the same database as the
   * store's records. The other options are for the pool and mean nothing to PGlite.
   */
  readonly db: D;
}

/**
 * Makes the bridge that runs handlers inside Drizzle's transactions. Latchkey opens and commits them on a client of
 * Drizzle's own pool, with its statements pipelined and COMMIT's tag seen; Drizzle builds its `tx` on that client.
 *
 * - `tx.transaction()` inside a handler is a savepoint, as ever.
 * - Drizzle wraps errors: `transaction-control` and `tx-revoked` come as the `cause` of a `DrizzleQueryError`.
 * - Drizzle's logger sees the handler's statements, not Latchkey's.
 *
 * @throws {TypeError} when Drizzle has another client under it, or an option is out of range
 */
export function drizzleTransactions<D extends DrizzleDatabase>(
  options: DrizzleOptions<D>,
): TransactionBridge<DrizzleTx<D>> {
  const { db, ...limits } = options;
  const client = db?.$client;
  if (isPglite(client)) {
    return overDrizzle(db, pgliteBridge(client), pgliteStandIn);
  }
  if (!isPool(client)) {
    throw new TypeError("db must be made by Drizzle on a `pg` Pool or on PGlite");
  }
  return overDrizzle(db, pgBridge<DrizzlePool>(openConnections({ ...limits, pool: client })), pgStandIn);
}

function overDrizzle<D extends DrizzleDatabase, Tx>(
  db: D,
  bridge: TransactionBridge<Tx>,
  standInFor: (tx: Tx) => StandIn,
): TransactionBridge<DrizzleTx<D>> {
  return {
    name: "drizzle",
    commitNotice: bridge.commitNotice,
    transact: (request, work) =>
      bridge.transact(request, ({ tx, ...session }) => workThroughDrizzle(db, standInFor(tx), session, work)),
  };
}

interface DrizzlePool extends PgPool {
  connect: () => Promise<DrizzlePgClient>;
}

/** A single `pg` client also has `connect`; transactions on one that others share would run into each other. */
function isPool(client: unknown): client is DrizzlePool {
  return isObject(client) && typeof client.connect === "function" && !("connection" in client);
}

function isPglite(client: unknown): client is PgliteDatabase {
  return isObject(client) && typeof client.transaction === "function" && "waitReady" in client;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
