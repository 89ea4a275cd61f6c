/** Transactions through Knex, and so through Objection: handlers get Knex's own `trx`. */

import { checkOptions, checkPorts, type OptionNames } from "../known-options.ts";
import { type KnexDatabase, poolOf } from "./knex/pool.ts";
import { type KnexTx, type OpenedKnex, openKnex } from "./knex/transaction.ts";
import { pgBridge } from "./pg/bridge.ts";
import type { PgPool } from "./pg/client.ts";
import { openConnections, type PgOptions, pgOptionNames } from "./pg/options.ts";
import type { QueryClient } from "./pg-clients/callback-queries.ts";
import type { BridgeOutcome, TransactionBridge } from "./transaction.ts";

export type { KnexDatabase, KnexTx };

export interface KnexOptions<K extends KnexDatabase> extends Omit<PgOptions<PgPool>, "pool"> {
  /** An instance of `knex({ client: "pg" })`, in the same database as the store's records. The other options are for its pool. */
  readonly knex: K;
}

const { pool: _, ...poolOptionNames } = pgOptionNames;
const knexOptionNames = { ...poolOptionNames, knex: true } as const satisfies OptionNames<
  KnexOptions<KnexDatabase>
>;

/**
 * Makes the bridge that runs handlers inside Knex's transactions. Latchkey opens and commits them on a client of Knex's
 * own pool, with its statements pipelined and COMMIT's tag checked; Knex builds its `trx` on that client.
 *
 * - `trx.transaction()` inside a handler is a savepoint, as usual.
 * - `trx.commit()` and `trx.rollback()` are refused with `transaction-control`: return to commit, throw to roll back.
 * - `trx.executionPromise` settles after COMMIT, and rejects when the transaction was not committed.
 * - Knex's events show the handler's statements and a BEGIN, not Latchkey's statements.
 *
 * @throws {TypeError} when Knex has another driver than `pg`, is a transaction, or an option is out of range
 */
export function knexTransactions<K extends KnexDatabase>(
  options: KnexOptions<K>,
): TransactionBridge<KnexTx<K>> {
  checkOptions("knexTransactions", options, knexOptionNames);
  checkPorts("knexTransactions", options.ports);
  const { knex, ...limits } = options;
  const bridge = pgBridge<KnexPool>(openConnections({ ...limits, pool: poolOf(knex) as KnexPool }));
  return {
    name: "knex",
    commitNotice: bridge.commitNotice,
    verify: () => bridge.verify?.(),
    async transact(request, work) {
      const opened: { knex?: OpenedKnex<KnexTx<K>> } = {};
      try {
        const outcome = await bridge.transact(request, async ({ tx, ...session }) => {
          opened.knex = await openKnex(knex, tx);
          const result = await work({ ...session, tx: opened.knex.trx });
          const refusal = opened.knex.refusal();
          if (refusal !== null && result.end === "commit") throw refusal;
          return result;
        });
        opened.knex?.end(failureOf(outcome));
        return outcome;
      } catch (error) {
        opened.knex?.end(error);
        throw error;
      }
    },
  };
}

/**
 * The pool of a Knex instance as a `pg` pool, for `postgresStore({ pool })` and `migratePostgres(pool)`: records and
 * handlers then share its connections. It is ended by `knex.destroy()`.
 *
 * @throws {TypeError} when Knex has another driver than `pg`, or is a transaction
 */
export function knexPool(knex: KnexDatabase): PgPool {
  return poolOf(knex);
}

interface KnexPool extends PgPool {
  connect: () => Promise<QueryClient>;
}

/** What `trx.executionPromise` rejects with; null: committed. */
function failureOf(outcome: BridgeOutcome<unknown>): unknown {
  if (outcome.kind === "committed") return null;
  return outcome.kind === "rolled_back" ? new Error("The transaction was rolled back") : outcome.error;
}
