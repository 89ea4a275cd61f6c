/** Transactions through Drizzle: handlers get Drizzle's own `tx`. */

import { checkOptions, checkPorts, type OptionNames } from "../known-options.ts";
import { type DrizzlePgClient, pgClientFacade } from "./drizzle/pg-client.ts";
import { pgliteClientFacade } from "./drizzle/pglite-client.ts";
import type { ClientFacade, DrizzleDatabase, DrizzleTx } from "./drizzle/session.ts";
import { workThroughDrizzle } from "./drizzle/session.ts";
import { pgBridge } from "./pg/bridge.ts";
import type { PgPool } from "./pg/client.ts";
import { openConnections, type PgOptions, pgOptionNames } from "./pg/options.ts";
import { pgliteBridge } from "./pglite/bridge.ts";
import type { PgliteDatabase } from "./pglite/database.ts";
import type { TransactionBridge } from "./transaction.ts";

export type { DrizzleDatabase, DrizzleTx };

export interface DrizzleOptions<D extends DrizzleDatabase> extends Omit<PgOptions<PgPool>, "pool"> {
  /**
   * A database of `drizzle-orm/node-postgres` on a `pg` Pool, or of `drizzle-orm/pglite`, in the same database as the
   * store's records. The other options are for the pool and have no effect with PGlite.
   */
  readonly db: D;
}

const { pool: _, ...poolOptionNames } = pgOptionNames;
const drizzleOptionNames = { ...poolOptionNames, db: true } as const satisfies OptionNames<
  DrizzleOptions<DrizzleDatabase>
>;

/**
 * Makes the bridge that runs handlers inside Drizzle's transactions. Latchkey opens and commits them on a client of
 * Drizzle's own pool, with its statements pipelined and COMMIT's tag checked; Drizzle builds its `tx` on that client.
 *
 * - `tx.transaction()` inside a handler is a savepoint, as usual.
 * - Drizzle wraps errors: `transaction-control` and `tx-revoked` come as the `cause` of a `DrizzleQueryError`.
 * - Drizzle's logger sees the handler's statements, not Latchkey's.
 *
 * @throws {TypeError} when Drizzle has another client under it, or an option is out of range
 */
export function drizzleTransactions<D extends DrizzleDatabase>(
  options: DrizzleOptions<D>,
): TransactionBridge<DrizzleTx<D>> {
  checkOptions("drizzleTransactions", options, drizzleOptionNames);
  checkPorts("drizzleTransactions", options.ports);
  const { db, ...limits } = options;
  const client = db?.$client;
  if (isPglite(client)) {
    return overDrizzle(db, pgliteBridge(client), pgliteClientFacade);
  }
  if (!isPool(client)) {
    throw new TypeError("db must be made by Drizzle on a `pg` Pool or on PGlite");
  }
  return overDrizzle(db, pgBridge<DrizzlePool>(openConnections({ ...limits, pool: client })), pgClientFacade);
}

function overDrizzle<D extends DrizzleDatabase, Tx>(
  db: D,
  bridge: TransactionBridge<Tx>,
  facadeFor: (tx: Tx) => ClientFacade,
): TransactionBridge<DrizzleTx<D>> {
  const { transactOptimistic } = bridge;
  const optimistic: Pick<TransactionBridge<DrizzleTx<D>>, "transactOptimistic"> = transactOptimistic ===
  undefined
    ? {}
    : {
        transactOptimistic: (request, admit, work) =>
          transactOptimistic(request, admit, ({ tx, ...session }) =>
            workThroughDrizzle(db, facadeFor(tx), session, work),
          ),
      };
  return {
    ...optimistic,
    name: "drizzle",
    commitNotice: bridge.commitNotice,
    verify: () => bridge.verify?.(),
    transact: (request, work) =>
      bridge.transact(request, ({ tx, ...session }) => workThroughDrizzle(db, facadeFor(tx), session, work)),
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
