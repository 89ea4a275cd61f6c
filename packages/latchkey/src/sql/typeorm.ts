/** Transactions through TypeORM: handlers get an `EntityManager` of the DataSource. */

import { checkOptions, checkPorts, type OptionNames } from "../known-options.ts";
import { pgBridge } from "./pg/bridge.ts";
import type { PgPool } from "./pg/client.ts";
import { openConnections, type PgOptions, pgOptionNames } from "./pg/options.ts";
import type { QueryClient } from "./pg-clients/callback-queries.ts";
import type { TransactionBridge } from "./transaction.ts";
import { isolationOf, poolOf, type TypeormDataSource } from "./typeorm/data-source.ts";
import { throughTypeorm } from "./typeorm/session.ts";

export type { TypeormDataSource };

/** What handlers get: the `EntityManager` that the callback of `dataSource.transaction()` gets. */
export type TypeormTx<D extends TypeormDataSource> = D["manager"];

export interface TypeormOptions<D extends TypeormDataSource> extends Omit<PgOptions<PgPool>, "pool"> {
  /**
   * An initialized DataSource of TypeORM 0.3 or 1 for Postgres, in the same database as the store's records. The other
   * options are for its pool.
   */
  readonly dataSource: D;
}

const { pool: _, ...poolOptionNames } = pgOptionNames;
const typeormOptionNames = { ...poolOptionNames, dataSource: true } as const satisfies OptionNames<
  TypeormOptions<TypeormDataSource>
>;

/**
 * Makes the bridge that runs handlers inside TypeORM's transactions. Latchkey opens and commits them on a client of the
 * DataSource's own pool, with its statements pipelined and COMMIT's tag checked; TypeORM's query runner works on that
 * client.
 *
 * - `tx.transaction()` inside a handler is a savepoint.
 * - `commitTransaction()`, `rollbackTransaction()` and `release()` of its query runner are refused with
 *   `transaction-control`: return to commit, throw to roll back.
 * - The DataSource's `isolationLevel` applies to operations that name none.
 * - Of subscribers, `afterTransactionCommit` is called after Postgres has confirmed COMMIT.
 *
 * @throws {TypeError} when the DataSource is not initialized, is not for Postgres, or an option is out of range
 */
export function typeormTransactions<D extends TypeormDataSource>(
  options: TypeormOptions<D>,
): TransactionBridge<TypeormTx<D>> {
  checkOptions("typeormTransactions", options, typeormOptionNames);
  checkPorts("typeormTransactions", options.ports);
  const { dataSource, ...limits } = options;
  const pool = poolOf(dataSource) as TypeormPool;
  const isolation = isolationOf(dataSource);
  const bridge = pgBridge<TypeormPool>(openConnections({ ...limits, pool }));
  return {
    name: "typeorm",
    commitNotice: bridge.commitNotice,
    verify: () => bridge.verify?.(),
    transact: (request, work) =>
      throughTypeorm(
        dataSource,
        (inside) => bridge.transact({ ...request, isolation: request.isolation ?? isolation }, inside),
        work,
      ),
  };
}

/**
 * The `pg` Pool of a DataSource, for `postgresStore({ pool })` and `migratePostgres(pool)`: records and handlers then
 * share its connections. It is ended by `dataSource.destroy()`.
 *
 * @throws {TypeError} when the DataSource is not initialized, or is not for Postgres
 */
export function typeormPool(dataSource: TypeormDataSource): PgPool {
  return poolOf(dataSource);
}

interface TypeormPool extends PgPool {
  connect: () => Promise<QueryClient>;
}
