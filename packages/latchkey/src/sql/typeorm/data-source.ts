/** The parts of a TypeORM DataSource that Latchkey needs: its pool, and how it begins transactions. */

import type { PgPool } from "../pg/client.ts";
import { isolationNamed } from "../pg-clients/isolation-names.ts";
import type { IsolationLevel } from "../transaction.ts";

/** A `DataSource` of TypeORM for Postgres. */
export interface TypeormDataSource {
  readonly isInitialized: boolean;
  readonly options: { readonly type: string };
  readonly driver: object;
  readonly manager: object;
  createQueryRunner(mode?: "master"): object;
}

/**
 * The `pg` Pool under a DataSource; with replication, that of the primary.
 *
 * @throws {TypeError} when the DataSource is not initialized, or has no such pool
 */
export function poolOf(dataSource: TypeormDataSource): PgPool {
  const type = dataSource?.options?.type;
  if (type !== "postgres") throw new TypeError('dataSource must be a DataSource of the type "postgres"');
  if (!dataSource.isInitialized) {
    throw new TypeError("dataSource must be initialized first: await dataSource.initialize()");
  }
  const { master } = dataSource.driver as { readonly master?: PgPool };
  if (typeof master?.connect !== "function") {
    throw new TypeError("This version of TypeORM is not supported: it hides its pool");
  }
  return master;
}

/**
 * The level that the DataSource gives to transactions that name none; null: the database's own.
 *
 * @throws {TypeError} when Postgres has no such level
 */
export function isolationOf({ options }: TypeormDataSource): IsolationLevel | null {
  return isolationNamed((options as { readonly isolationLevel?: string }).isolationLevel);
}
