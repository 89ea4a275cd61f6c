/** Transactions through a `pg` pool: handlers get a client of the pool as their `tx`. */
import { checkOptions, checkPorts } from "../known-options.ts";
import { pgBridge } from "./pg/bridge.ts";
import type { PgPool, PgTx } from "./pg/client.ts";
import { openConnections, type PgOptions, pgOptionNames } from "./pg/options.ts";
import type { TransactionBridge } from "./transaction.ts";

export type { PgOptions, PgPool, PgTx };

/**
 * Makes the bridge that opens transactions on clients of `options.pool`. The Postgres store makes one by itself; use this
 * when the store reaches its records through one pool and handlers use another on the same database.
 *
 * @throws {TypeError} when an option is out of range
 */
export function pgTransactions<P extends PgPool>(options: PgOptions<P>): TransactionBridge<PgTx<P>> {
  checkOptions("pgTransactions", options, pgOptionNames);
  checkPorts("pgTransactions", options.ports);
  return pgBridge<P>(openConnections(options));
}
