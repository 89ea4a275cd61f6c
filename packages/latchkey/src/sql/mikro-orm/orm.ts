/** The parts of MikroORM that Latchkey needs. Everything that relies on more than its documentation is in this folder. */
import { checkKysely, type KyselyDatabase } from "../kysely/session.ts";
import type { PgPool } from "../pg/client.ts";

/** A `MikroORM` of `@mikro-orm/postgresql`. */
export interface MikroOrm {
  readonly em: object;
  readonly driver: { getConnection(type?: "write"): object };
}

/** `PostgreSqlConnection`. */
interface MikroOrmConnection {
  getClient(): KyselyDatabase;
  getNativeClient?(): Promise<PgPool>;
  /** Sets the variables and the role of row-level security for one transaction. */
  applySessionContext?(transaction: object, context: object): Promise<void>;
}

export function connectionOf(orm: MikroOrm): MikroOrmConnection {
  return orm.driver.getConnection("write") as MikroOrmConnection;
}

/** The Kysely on which MikroORM is built. */
export function kyselyOf(orm: MikroOrm): KyselyDatabase {
  return connectionOf(orm).getClient();
}

/** @throws {TypeError} when `orm` is not a MikroORM, has another version, or is for a database other than Postgres */
export function checkMikroOrm(orm: MikroOrm | undefined): asserts orm is MikroOrm {
  if (typeof orm?.driver?.getConnection !== "function" || !("fork" in orm.em)) {
    throw new TypeError("orm must be a MikroORM");
  }
  if (typeof connectionOf(orm).getClient !== "function" || !("getKysely" in orm.em)) {
    throw new TypeError(
      "This MikroORM is not supported: it must be version 7, with the driver of @mikro-orm/postgresql",
    );
  }
  try {
    checkKysely(kyselyOf(orm));
  } catch (cause) {
    throw new TypeError(
      "This MikroORM is not supported: it must have the driver of @mikro-orm/postgresql, on a Kysely of 0.28 or 0.29",
      { cause },
    );
  }
}

/** @throws {TypeError} when the pool is not MikroORM's own */
export async function poolOf(orm: MikroOrm): Promise<PgPool> {
  checkMikroOrm(orm);
  const own =
    "MikroORM does not expose its pool: pass to `mikroOrmTransactions` the pool that you have passed to MikroORM";
  try {
    const pool = await connectionOf(orm).getNativeClient?.();
    if (pool !== undefined) return pool;
  } catch (cause) {
    throw new TypeError(own, { cause });
  }
  throw new TypeError(own);
}
