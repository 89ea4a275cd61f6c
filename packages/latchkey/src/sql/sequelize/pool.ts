/** The pool of a Sequelize instance in the form of the `pg` pool that the rest of Latchkey uses. */
import type { PgConnector, PgPool } from "../pg/client.ts";
import { isolationNamed } from "../pg-clients/isolation-names.ts";
import { acquireFrom, releasable } from "../pg-clients/other-pool.ts";
import type { IsolationLevel } from "../transaction.ts";

/** An instance of `Sequelize` 6. */
export interface SequelizeDatabase {
  getDialect(): string;
  transaction: (...args: never[]) => unknown;
}

/** The same, with members that its published types leave out. */
interface Sequelize extends SequelizeDatabase {
  readonly connectionManager?: Partial<ConnectionManager>;
  readonly options: Options;
}

interface ConnectionManager {
  readonly pool?: Partial<SequelizePool> & { readonly write?: SequelizePool };
  getConnection(options: { readonly useMaster: true }): Promise<SequelizeConnection>;
  releaseConnection(connection: SequelizeConnection): unknown;
  destroyConnection(connection: SequelizeConnection): Promise<unknown>;
}

/** With replication, Sequelize has one for reading and one for writing. */
interface SequelizePool {
  readonly maxSize: number;
  /** How many connections are in use. */
  readonly using: number;
}

interface SequelizeConnection {
  release?: (destroyed?: boolean) => void;
}

interface Options {
  readonly native?: boolean;
  readonly isolationLevel?: string | null;
  readonly dialectOptions?: { readonly connectionTimeoutMillis?: number };
}

const pools = new WeakMap<object, PgPool>();

/**
 * One pool for each Sequelize instance, so that the counts kept for a pool exist once.
 *
 * @throws {TypeError} when `sequelize` has another version or dialect, or uses `pg-native`
 */
export function poolOf(sequelize: SequelizeDatabase): PgPool {
  const { connectionManager: manager, options } = (sequelize ?? {}) as Partial<Sequelize>;
  if (typeof sequelize?.getDialect !== "function" || typeof manager?.getConnection !== "function") {
    throw new TypeError("sequelize must be an instance of Sequelize 6");
  }
  if (sequelize.getDialect() !== "postgres" || options?.native) {
    throw new TypeError("sequelize must have the dialect postgres, on `pg` without `native`");
  }
  const pool = pools.get(sequelize) ?? makePool(manager as ConnectionManager, options ?? {});
  pools.set(sequelize, pool);
  return pool;
}

/** The level that Sequelize gives to transactions that name none; null: the database's own. */
export function isolationOf(sequelize: SequelizeDatabase): IsolationLevel | null {
  return isolationNamed((sequelize as Sequelize).options.isolationLevel);
}

function makePool(manager: ConnectionManager, { dialectOptions }: Options): PgPool {
  const writing = () => manager.pool?.write ?? manager.pool;
  const pool: PgPool & Pick<PgConnector, "busyCount"> = {
    async connect() {
      const acquire = () => manager.getConnection({ useMaster: true });
      const connection = await acquireFrom(acquire, "SequelizeConnectionAcquireTimeoutError");
      return releasable(connection, (destroyed) => {
        if (!destroyed) manager.releaseConnection(connection);
        // Its stream is already destroyed, so an error while it is closed means nothing.
        else manager.destroyConnection(connection).catch(() => {});
      });
    },
    get options() {
      return { max: writing()?.maxSize, connectionTimeoutMillis: dialectOptions?.connectionTimeoutMillis };
    },
    get busyCount() {
      return writing()?.using ?? 0;
    },
  };
  return pool;
}
