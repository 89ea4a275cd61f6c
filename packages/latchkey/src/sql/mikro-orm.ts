/** Transactions through MikroORM: handlers get an `EntityManager` of the ORM. */

import { checkOptions, checkPorts, type OptionNames } from "../known-options.ts";
import { type CursorClass, type KyselyPgClient, pgConnection } from "./kysely/connection.ts";
import { checkMikroOrm, type MikroOrm, poolOf } from "./mikro-orm/orm.ts";
import { throughMikroOrm } from "./mikro-orm/session.ts";
import { pgBridge } from "./pg/bridge.ts";
import type { PgPool } from "./pg/client.ts";
import { openConnections, type PgOptions, pgOptionNames } from "./pg/options.ts";
import type { TransactionBridge } from "./transaction.ts";

export type { MikroOrm };

/** What handlers get: the `EntityManager` that the callback of `em.transactional()` gets. */
export type MikroOrmTx<O extends MikroOrm> = O["em"];

export interface MikroOrmOptions<O extends MikroOrm> extends PgOptions<PgPool> {
  /** A `MikroORM` of version 7 with `@mikro-orm/postgresql`. */
  readonly orm: O;
  /** The `pg` Pool under it, from `await mikroOrmPool(orm)`, or another one in the same database as the store's records. */
  readonly pool: PgPool;
  /** The class of `pg-cursor`, for `em.stream()` in handlers. Default: none, `em.stream()` throws. */
  readonly cursor?: CursorClass;
}

const mikroOrmOptionNames = {
  ...pgOptionNames,
  orm: true,
  cursor: true,
} as const satisfies OptionNames<MikroOrmOptions<MikroOrm>>;

/**
 * Makes the bridge that runs handlers inside MikroORM's transactions. Latchkey opens and commits them on a client of
 * `pool`, with its own statements pipelined and COMMIT's tag checked; MikroORM's unit of work writes on that client.
 *
 * - `tx` is a fork of `orm.em`, and `orm.em` itself stands for it while the handler runs, as in `em.transactional()`.
 * - `tx` is flushed when the handler has answered: an error of the flush counts as the handler's, and nothing is committed.
 * - `tx.transactional()` is a savepoint. `tx.begin()`, `tx.commit()` and `tx.rollback()` are refused with
 *   `transaction-control`: return to commit, throw to roll back.
 * - Of subscribers, `afterTransactionCommit` is called after Postgres has confirmed COMMIT.
 *
 * @throws {TypeError} when `orm` is not a MikroORM 7 for Postgres, or an option is out of range
 */
export function mikroOrmTransactions<O extends MikroOrm>(
  options: MikroOrmOptions<O>,
): TransactionBridge<MikroOrmTx<O>> {
  checkOptions("mikroOrmTransactions", options, mikroOrmOptionNames);
  checkPorts("mikroOrmTransactions", options.ports);
  const { orm, cursor, pool, ...limits } = options;
  checkMikroOrm(orm);
  const bridge = pgBridge<MikroOrmPool>(openConnections({ ...limits, pool: pool as MikroOrmPool }));
  return {
    name: "mikro-orm",
    commitNotice: bridge.commitNotice,
    verify: () => bridge.verify?.(),
    transact: (request, work) =>
      throughMikroOrm(
        orm,
        (inside) =>
          bridge.transact(request, ({ tx, ...session }) => inside(pgConnection(tx, cursor), session)),
        work,
      ),
  };
}

/**
 * The `pg` Pool under MikroORM, for `mikroOrmTransactions` and `postgresStore({ pool })`: records and handlers then share
 * its connections. `orm.close()` ends it. Connects the ORM if it is not connected.
 *
 * @throws {TypeError} when `orm` is not a MikroORM 7 for Postgres, or was given a Kysely dialect of its own
 */
export async function mikroOrmPool(orm: MikroOrm): Promise<PgPool> {
  return poolOf(orm);
}

interface MikroOrmPool extends PgPool {
  connect: () => Promise<KyselyPgClient>;
}
