/** Transactions through Kysely: handlers get Kysely's own `ControlledTransaction`. */

import { checkOptions, checkPorts, type OptionNames } from "../known-options.ts";
import {
  type CursorClass,
  type KyselyConnection,
  type KyselyPgClient,
  type KyselyPgliteTx,
  pgConnection,
  pgliteConnection,
} from "./kysely/connection.ts";
import {
  checkKysely,
  type KyselyDatabase,
  type KyselyLog,
  type KyselyTx,
  workThroughKysely,
} from "./kysely/session.ts";
import { pgBridge } from "./pg/bridge.ts";
import type { PgPool } from "./pg/client.ts";
import { openConnections, type PgOptions, pgOptionNames } from "./pg/options.ts";
import { pgliteBridge } from "./pglite/bridge.ts";
import type { PgliteDatabase } from "./pglite/database.ts";
import type { TransactionBridge } from "./transaction.ts";

export type { KyselyDatabase, KyselyTx };

export interface KyselyOptions<D extends KyselyDatabase> extends Omit<PgOptions<PgPool>, "pool"> {
  /** A `Kysely` of 0.28 or 0.29 with a dialect for Postgres. Handlers get its types, its plugins and its schema. */
  readonly db: D;
  /**
   * The `pg` Pool or the PGlite database under `db`, which Kysely does not reveal. Transactions run on it, in the same
   * database as the store's records. The options for connections and statements have no effect with PGlite.
   */
  readonly pool: PgPool | PgliteDatabase;
  /** Kysely's own `log`, for the statements of handlers. Default: nothing is logged, whatever `db` logs. */
  readonly log?: KyselyLog;
  /** The class of `pg-cursor`, as in Kysely's `PostgresDialect`, for `stream()` in handlers. Default: none, `stream()` throws. */
  readonly cursor?: CursorClass;
}

const kyselyOptionNames = {
  ...pgOptionNames,
  db: true,
  log: true,
  cursor: true,
} as const satisfies OptionNames<KyselyOptions<KyselyDatabase>>;

/**
 * Makes the bridge that runs handlers inside Kysely's transactions. Latchkey opens and commits them on a client of
 * `pool`, with its own statements pipelined and COMMIT's tag checked; Kysely builds the handler's `tx` on that client.
 *
 * - `tx` is a `ControlledTransaction`, so it can be passed to functions that take a `Transaction`.
 * - `tx.savepoint(name)` is the nested transaction. `tx.commit()` and `tx.rollback()` are refused with
 *   `transaction-control`: return to commit, throw to roll back.
 * - Kysely sends one statement of a transaction after the other, also under `Promise.all`.
 *
 * @throws {TypeError} when `db` is not a supported Kysely for Postgres, or an option is out of range
 */
export function kyselyTransactions<D extends KyselyDatabase>(
  options: KyselyOptions<D>,
): TransactionBridge<KyselyTx<D>> {
  checkOptions("kyselyTransactions", options, kyselyOptionNames);
  checkPorts("kyselyTransactions", options.ports);
  const { db, pool, log, cursor, ...limits } = options;
  checkKysely(db);
  if (isPglite(pool)) {
    return overKysely(db, log, pgliteBridge(pool), (tx: unknown) => pgliteConnection(tx as KyselyPgliteTx));
  }
  const connections = openConnections({ ...limits, pool: pool as KyselyPool });
  return overKysely(db, log, pgBridge<KyselyPool>(connections), (client) => pgConnection(client, cursor));
}

function overKysely<D extends KyselyDatabase, Client>(
  db: D,
  log: KyselyLog | undefined,
  bridge: TransactionBridge<Client>,
  connectionOver: (client: Client) => KyselyConnection,
): TransactionBridge<KyselyTx<D>> {
  return {
    name: "kysely",
    commitNotice: bridge.commitNotice,
    verify: () => bridge.verify?.(),
    transact: (request, work) =>
      bridge.transact(request, ({ tx, ...session }) =>
        workThroughKysely({ db, log, connection: connectionOver(tx) }, session, work),
      ),
  };
}

interface KyselyPool extends PgPool {
  connect: () => Promise<KyselyPgClient>;
}

function isPglite(pool: PgPool | PgliteDatabase | undefined): pool is PgliteDatabase {
  return typeof pool === "object" && pool !== null && "transaction" in pool && "waitReady" in pool;
}
