/** The Postgres store over a `pg` pool: records and business writes commit in one transaction. */
import type { RecordKey } from "../engine/record.ts";
import { checkOptions, checkPorts, type OptionNames } from "../known-options.ts";
import { pgBridge } from "../sql/pg/bridge.ts";
import type { PgPool, PgTx } from "../sql/pg/client.ts";
import { openConnections, type PgOptions, pgOptionNames } from "../sql/pg/options.ts";
import type { TransactionBridge } from "../sql/transaction.ts";
import { applyMigrations, type MigrationReport, renderMigrations } from "./migrate-postgres.ts";
import { examinePool } from "./postgres/operator/examine-pool.ts";
import { poolExecutor } from "./postgres/pool-executor.ts";
import { poolHints } from "./postgres/pool-hints.ts";
import {
  checkSchemaName,
  checkTimeFunction,
  defaultSchema,
  defaultTimeFunction,
} from "./postgres/statements/names.ts";
import { assembleStore } from "./postgres/store.ts";
import type { Store, StoreCapabilities } from "./store.ts";

export type { MigrationReport, PgPool, PgTx };

export interface PostgresStoreOptions<P extends PgPool> extends PgOptions<P> {
  /** The schema that holds Latchkey's tables: a plain lower-case name. Default `latchkey`. */
  readonly schema?: string;
  /** The call that returns the store's time, e.g. `my_clock()`. Default `pg_catalog.clock_timestamp()`. */
  readonly timeFunction?: string;
  /**
   * `synced` (default): no acknowledged record is lost by a crash; even if the session has `synchronous_commit = off`,
   * Latchkey's commits are synced. `may-lose-acknowledged`: commits use the session's setting.
   */
  readonly durability?: StoreCapabilities["durability"];
  /**
   * Whether processes notify each other by LISTEN and NOTIFY that something is due. Default true. A worker holds one
   * connection for it and needs a pool of at least 4. Set it to false for poolers that give a connection to another client
   * after each transaction; workers then find due work only by polling.
   */
  readonly notify?: boolean;
}

const storeOptionNames = {
  ...pgOptionNames,
  schema: true,
  timeFunction: true,
  durability: true,
  notify: true,
  transactions: true,
} as const satisfies OptionNames<PostgresStoreOptions<PgPool> & { readonly transactions?: unknown }>;

export interface PostgresStore<Tx> extends Store<Tx> {
  /**
   * Releases the connection that heartbeats hold while attempts under a lease run, and stops listening for hints. Call it
   * before ending the pool. The store can be used again afterwards.
   */
  close(): Promise<void>;

  /** Whether a transaction is running under this key, given as stored, in any process. For operators. */
  isRunning(key: RecordKey): Promise<boolean>;
}

/**
 * Makes a store on a `pg` 8 pool (its JavaScript client; tested with 8.23). It opens nothing and creates nothing: the schema comes from
 * `migratePostgres`, `npx latchkey migrate`, or your own migrations. With `lease` execution the pool needs at least 2
 * connections, with both executions 3.
 *
 * @param options `transactions`: opens the transactions; default `pgTransactions` on the same pool
 * @throws {TypeError} when an option is out of range
 */
export function postgresStore<P extends PgPool>(options: PostgresStoreOptions<P>): PostgresStore<PgTx<P>>;
export function postgresStore<P extends PgPool, Tx>(
  options: PostgresStoreOptions<P> & { readonly transactions: TransactionBridge<Tx> },
): PostgresStore<Tx>;
export function postgresStore<P extends PgPool>(
  options: PostgresStoreOptions<P> & { readonly transactions?: TransactionBridge<unknown> },
): PostgresStore<unknown> {
  checkOptions("postgresStore", options, storeOptionNames);
  checkPorts("postgresStore", options.ports);
  const connections = openConnections(options);
  const bridge: TransactionBridge<unknown> = options.transactions ?? pgBridge<P>(connections);
  const executor = poolExecutor(connections);
  const schema = checkSchemaName(options.schema ?? defaultSchema);
  const hints = options.notify === false ? null : poolHints(connections, schema);
  const store = assembleStore({
    name: "postgres",
    schema,
    timeFunction: checkTimeFunction(options.timeFunction ?? defaultTimeFunction),
    serverLimits: true,
    capabilities: {
      transactions: true,
      optimisticAdmission: bridge.transactOptimistic !== undefined,
      inProgress: "immediate",
      durability: options.durability ?? "synced",
      commitNotice: bridge.commitNotice,
      fenceSurvivesFailover: true,
      statusReads: "primary",
    },
    executor,
    bridge,
    clock: connections.options.clock,
    hints,
  });
  const alone = options.pool.options?.max === 1;
  return {
    ...store,
    verify() {
      connections.warnOfEndlessConnects();
      options.transactions?.verify?.();
      return store.verify();
    },
    async examine(request) {
      const found = await store.examine(request);
      const isReachable = found.every(({ check, status }) => check !== "connection" || status === "ok");
      const pool = await examinePool(connections, { notify: hints !== null }, request, isReachable);
      return [...found, ...pool];
    },
    ...(alone && {
      leasesRefused:
        "needs a pool of at least 2 connections, as one is kept for heartbeats: set `max` of the pool",
    }),
    async close() {
      await hints?.close();
      await executor.close();
    },
  };
}

export interface MigrateOptions {
  /** Default `latchkey`. */
  readonly schema?: string;
}

const migrateOptionNames = { schema: true } as const satisfies OptionNames<MigrateOptions>;

/**
 * Brings the schema to the version this code needs. Any number of processes may do it at once. Everything happens in
 * one transaction, so it is all or nothing.
 *
 * @throws {TypeError} when the schema's name is not plain
 * @throws the database's errors
 */
export function migratePostgres(pool: PgPool, options: MigrateOptions = {}): Promise<MigrationReport> {
  checkOptions("migratePostgres", options, migrateOptionNames);
  return applyMigrations(pool, checkSchemaName(options.schema ?? defaultSchema));
}

/**
 * The migrations as SQL, to paste into those of Prisma, Drizzle or another tool.
 *
 * @param options `after`: leave out the migrations up to this version; default 0, which is none
 */
export function migratePostgresSql(options: MigrateOptions & { readonly after?: number } = {}): string {
  checkOptions("migratePostgresSql", options, { ...migrateOptionNames, after: true });
  return renderMigrations(checkSchemaName(options.schema ?? defaultSchema), options.after ?? 0);
}
