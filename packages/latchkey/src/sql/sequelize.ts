/** Transactions through Sequelize: handlers get Sequelize's own `Transaction`. */

import { checkOptions, checkPorts, type OptionNames } from "../known-options.ts";
import { pgBridge } from "./pg/bridge.ts";
import type { PgPool } from "./pg/client.ts";
import { openConnections, type PgOptions, pgOptionNames } from "./pg/options.ts";
import type { QueryClient } from "./pg-clients/callback-queries.ts";
import { isolationOf, poolOf, type SequelizeDatabase } from "./sequelize/pool.ts";
import { type OpenedSequelize, openSequelize, type SequelizeTx } from "./sequelize/transaction.ts";
import type { TransactionBridge } from "./transaction.ts";

export type { SequelizeDatabase, SequelizeTx };

export interface SequelizeOptions<S extends SequelizeDatabase> extends Omit<PgOptions<PgPool>, "pool"> {
  /** A Sequelize 6 for Postgres, in the same database as the store's records. The other options are for its pool. */
  readonly sequelize: S;
}

const { pool: _, ...poolOptionNames } = pgOptionNames;
const sequelizeOptionNames = { ...poolOptionNames, sequelize: true } as const satisfies OptionNames<
  SequelizeOptions<SequelizeDatabase>
>;

/**
 * Makes the bridge that runs handlers inside Sequelize's transactions. Latchkey opens and commits them on a client of
 * Sequelize's own pool, with its statements pipelined and COMMIT's tag checked.
 *
 * - A transaction with `{ transaction: tx }` inside a handler is a savepoint.
 * - `tx.commit()` and `tx.rollback()` are refused with `transaction-control`: return to commit, throw to roll back.
 * - Functions given to `tx.afterCommit()` run after Postgres has confirmed COMMIT.
 * - Under `Sequelize.useCLS()`, queries of the handler that name no transaction belong to `tx`.
 * - The `isolationLevel` of Sequelize's options applies to operations that name none.
 *
 * @throws {TypeError} when `sequelize` is not a Sequelize 6 on `pg`, or an option is out of range
 */
export function sequelizeTransactions<S extends SequelizeDatabase>(
  options: SequelizeOptions<S>,
): TransactionBridge<SequelizeTx<S>> {
  checkOptions("sequelizeTransactions", options, sequelizeOptionNames);
  checkPorts("sequelizeTransactions", options.ports);
  const { sequelize, ...limits } = options;
  const pool = poolOf(sequelize) as SequelizePool;
  const isolation = isolationOf(sequelize);
  const bridge = pgBridge<SequelizePool>(openConnections({ ...limits, pool }));
  return {
    name: "sequelize",
    commitNotice: bridge.commitNotice,
    verify: () => bridge.verify?.(),
    async transact(request, work) {
      const opened: { sequelize?: OpenedSequelize<SequelizeTx<S>> } = {};
      const own = { ...request, isolation: request.isolation ?? isolation };
      const outcome = await bridge.transact(own, async ({ tx: client, ...session }) => {
        const through = openSequelize(sequelize, client);
        const { tx, within, refusal } = through;
        opened.sequelize = through;
        const result = await within(() => work({ ...session, tx }));
        const refused = refusal();
        if (refused !== null && result.end === "commit") throw refused;
        return result;
      });
      if (outcome.kind === "committed") await opened.sequelize?.committed().catch(warn);
      return outcome;
    },
  };
}

/**
 * The pool of a Sequelize instance as a `pg` pool, for `postgresStore({ pool })` and `migratePostgres(pool)`: records and
 * handlers then share its connections. It is ended by `sequelize.close()`.
 *
 * @throws {TypeError} when `sequelize` is not a Sequelize 6 on `pg`
 */
export function sequelizePool(sequelize: SequelizeDatabase): PgPool {
  return poolOf(sequelize);
}

interface SequelizePool extends PgPool {
  connect: () => Promise<QueryClient>;
}

/** Only a warning, because the transaction is committed by now and its answer stands. */
function warn(error: unknown): void {
  process.emitWarning(`A function given to Sequelize's afterCommit() failed: ${String(error)}`, {
    type: "LatchkeyWarning",
    code: "LATCHKEY_AFTER_COMMIT_FAILED",
  });
}
