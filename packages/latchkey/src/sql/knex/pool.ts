/** The pool of a Knex instance in the form of the `pg` pool that the rest of Latchkey uses. */
import type { PgPool } from "../pg/client.ts";
import { acquireFrom, releasable } from "../pg-clients/other-pool.ts";

/** An instance made by `knex({ client: "pg", … })`. */
export interface KnexDatabase {
  readonly client: unknown;
  readonly isTransaction?: boolean | undefined;
  transaction: (...args: never[]) => unknown;
}

/** The part of Knex's client for Postgres that Latchkey uses. */
interface KnexClient {
  readonly driverName: string;
  readonly config?: { readonly connectionPool?: unknown };
  /** Absent after `knex.destroy()`. */
  readonly pool?: TarnPool | undefined;
  acquireConnection(): Promise<KnexConnection>;
  releaseConnection(connection: KnexConnection): unknown;
}

/** The pool that Knex makes unless it is given one. */
interface TarnPool {
  readonly max?: number;
  readonly createTimeoutMillis?: number;
  numUsed(): number;
}

/** A `pg` client with the mark that keeps Knex from using it again. */
interface KnexConnection {
  __knex__disposed?: unknown;
  release?: (destroyed?: boolean) => void;
}

const pools = new WeakMap<object, PgPool>();

/**
 * One pool for each Knex instance, so that the counts kept for a pool exist once.
 *
 * @throws {TypeError} when `knex` is a transaction, or has another driver than `pg`
 */
export function poolOf(knex: KnexDatabase): PgPool {
  const { client } = knex ?? {};
  if (!isKnexClient(client)) throw new TypeError('knex must be made by `knex({ client: "pg" })`');
  if (knex.isTransaction) throw new TypeError("knex must not be a transaction: Latchkey opens its own");
  const pool = pools.get(client) ?? makePool(client);
  pools.set(client, pool);
  return pool;
}

function isKnexClient(client: unknown): client is KnexClient {
  return (
    typeof client === "object" &&
    client !== null &&
    "driverName" in client &&
    client.driverName === "pg" &&
    "acquireConnection" in client &&
    typeof client.acquireConnection === "function"
  );
}

function makePool(client: KnexClient): PgPool {
  const given = client.config?.connectionPool;
  if (isPgPool(given)) return given;
  return {
    async connect() {
      const connection = await acquireFrom(() => client.acquireConnection(), "KnexTimeoutError");
      return releasable(connection, (destroyed) => {
        if (destroyed) connection.__knex__disposed ??= "Latchkey has ended this connection";
        client.releaseConnection(connection);
      });
    },
    get options() {
      return { max: client.pool?.max, connectionTimeoutMillis: client.pool?.createTimeoutMillis };
    },
    get busyCount() {
      return client.pool?.numUsed();
    },
  } as PgPool;
}

/** Knex 3.3 takes a `pg` Pool as `connectionPool`. */
function isPgPool(pool: unknown): pool is PgPool {
  return typeof pool === "object" && pool !== null && "connect" in pool && !("acquire" in pool);
}
