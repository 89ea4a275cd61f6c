/** The store over PGlite, which is Postgres inside the process: the default for development. */
import { LatchkeyError } from "../errors.ts";
import { checkOptions, checkPorts, type OptionNames } from "../known-options.ts";
import { type Ports, systemPorts } from "../ports.ts";
import { pgliteBridge } from "../sql/pglite/bridge.ts";
import {
  type PgliteDatabase,
  type PgliteQueryable,
  type PgliteTx,
  sessionOf,
} from "../sql/pglite/database.ts";
import { runStatement } from "../sql/pglite/statements.ts";
import type { TransactionBridge } from "../sql/transaction.ts";
import { renderMigrations } from "./migrate-postgres.ts";
import { claimDataDirectory } from "./pglite/directory-lock.ts";
import { pgliteExecutor } from "./pglite/executor.ts";
import { pgliteHints } from "./pglite/hints.ts";
import { runningKeysOf } from "./pglite/running-keys.ts";
import { besideSession } from "./pglite/transactions.ts";
import {
  checkSchemaName,
  checkTimeFunction,
  defaultSchema,
  defaultTimeFunction,
} from "./postgres/statements/names.ts";
import { assembleStore } from "./postgres/store.ts";
import type { Store } from "./store.ts";

export type { PgliteDatabase, PgliteTx };

export interface PgliteStoreOptions<D extends PgliteDatabase> {
  /** An open PGlite database. It lives in this process alone: see `pgliteStore`. */
  readonly database: D;
  /** The schema that holds Latchkey's tables: a plain lower-case name. Default `latchkey`. */
  readonly schema?: string;
  /** The call that returns the store's time, e.g. `my_clock()`. Default `pg_catalog.clock_timestamp()`. */
  readonly timeFunction?: string;
  /** The process's clock. Default: the system's. */
  readonly ports?: Pick<Ports, "clock">;
}

const storeOptionNames = {
  database: true,
  schema: true,
  timeFunction: true,
  ports: true,
  transactions: true,
} as const satisfies OptionNames<PgliteStoreOptions<PgliteDatabase> & { readonly transactions?: unknown }>;

/**
 * Makes a store on a PGlite database that you have opened, and migrated with `migratePglite`.
 *
 * - PGlite has one session. While a handler's transaction or phase is open, everything else on the database waits: a
 *   handler that awaits the database itself instead of its `tx` waits for its own end, until `transactionLimitMs`. A
 *   running statement cannot be stopped.
 * - A duplicate of a running key is refused at once. Reading another key, and a heartbeat, waits for the open
 *   transaction.
 * - Nothing keeps a second process from opening the same folder, and then both lose data without an error; `openPglite`
 *   does.
 * - Commits survive a crash of the process, not a loss of power.
 *
 * @param options `transactions`: opens the transactions, e.g. `drizzleTransactions` on the same database
 * @throws {TypeError} when an option is out of range
 */
export function pgliteStore<D extends PgliteDatabase>(options: PgliteStoreOptions<D>): Store<PgliteTx<D>>;
export function pgliteStore<D extends PgliteDatabase, Tx>(
  options: PgliteStoreOptions<D> & { readonly transactions: TransactionBridge<Tx> },
): Store<Tx>;
export function pgliteStore<D extends PgliteDatabase>(
  options: PgliteStoreOptions<D> & { readonly transactions?: TransactionBridge<unknown> },
): Store<unknown> {
  checkOptions("pgliteStore", options, storeOptionNames);
  checkPorts("pgliteStore", options.ports);
  const { database } = options;
  if (typeof database?.transaction !== "function") throw new TypeError("database must be a PGlite database");
  const { clock } = options.ports ?? systemPorts;
  const bridge: TransactionBridge<unknown> = options.transactions ?? pgliteBridge<D>(database);
  const schema = checkSchemaName(options.schema ?? defaultSchema);
  const store = assembleStore({
    name: "pglite",
    schema,
    timeFunction: checkTimeFunction(options.timeFunction ?? defaultTimeFunction),
    serverLimits: false,
    capabilities: {
      transactions: true,
      inProgress: "immediate",
      durability: "may-lose-acknowledged",
      commitNotice: bridge.commitNotice,
      fenceSurvivesFailover: false,
      statusReads: "primary",
    },
    executor: pgliteExecutor(sessionOf(database), clock),
    bridge,
    clock,
    hints: pgliteHints(database, schema),
  });
  return besideSession(store, { keys: runningKeysOf(database), schema, clock });
}

/**
 * Brings the schema to the version this code needs, in one transaction.
 *
 * @param options `schema`: default `latchkey`
 * @throws {TypeError} when the schema's name is not plain
 */
export async function migratePglite(
  database: PgliteDatabase,
  options: { readonly schema?: string } = {},
): Promise<void> {
  checkOptions("migratePglite", options, { schema: true });
  await migrate(database, checkSchemaName(options.schema ?? defaultSchema));
}

export interface OpenPgliteOptions {
  /** The folder of the database, which is created if it does not exist; or `memory://` for one that ends with the process. */
  readonly dataDir: string;
  /** Open it although NODE_ENV is `production`. Default false. */
  readonly allowProduction?: boolean;
  /** The schema that holds Latchkey's tables. Default `latchkey`. */
  readonly schema?: string;
  /** The process's clock and randomness. Default: the system's. */
  readonly ports?: Ports;
}

const openOptionNames = {
  dataDir: true,
  allowProduction: true,
  schema: true,
  ports: true,
} as const satisfies OptionNames<OpenPgliteOptions>;

export interface OpenPglite<D extends PgliteDatabase> {
  readonly store: Store<PgliteTx<D>>;
  /** The database itself, for your own tables. Inside a handler use its `tx` only. */
  readonly database: D;
  /** Waits for running transactions, closes the database and lets another process open it. */
  close(): Promise<void>;
}

/**
 * Opens an embedded database for this process alone, migrates it, and makes a store on it: as `pgliteStore`, with a lock on
 * the folder in addition. A lock whose process is dead is removed.
 *
 * @param PGlite the class from `@electric-sql/pglite`, or your own subclass that adds extensions
 * @throws {LatchkeyError} `embedded-in-production`, `data-directory-locked`
 * @throws {TypeError} when an option is out of range
 */
export async function openPglite<D extends PgliteDatabase>(
  PGlite: new (dataDir: string) => D,
  options: OpenPgliteOptions,
): Promise<OpenPglite<D>> {
  checkOptions("openPglite", options, openOptionNames);
  checkPorts("openPglite", options.ports);
  const { dataDir, allowProduction = false, ports = systemPorts } = options;
  if (process.env.NODE_ENV === "production" && !allowProduction) {
    throw new LatchkeyError("embedded-in-production");
  }
  const schema = checkSchemaName(options.schema ?? defaultSchema);
  const release = claimDataDirectory(dataDir, ports.random);
  let database: D | null = null;
  try {
    database = new PGlite(dataDir);
    await database.waitReady;
    await migrate(database, schema);
  } catch (error) {
    await shut(database).catch(() => {});
    release();
    throw error;
  }
  const opened = database;
  const store = pgliteStore({ database: opened, schema, ports });
  const close = once(() => shut(opened).finally(release));
  return { store, database: opened, close };
}

async function shut(database: PgliteDatabase | null): Promise<void> {
  if (database !== null && !database.closed) await database.close();
}

function once<T>(run: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | null = null;
  return () => {
    result ??= run();
    return result;
  };
}

/** In one transaction: all or nothing, and nothing else in between. */
async function migrate(database: PgliteDatabase, schema: string): Promise<void> {
  await sessionOf(database).transaction(async (tx) => {
    await tx.exec(renderMigrations(schema, await versionOf(tx, schema)));
  });
}

/** 0 if nothing was migrated yet. */
async function versionOf(tx: PgliteQueryable, schema: string): Promise<number> {
  const migrations = `"${schema}".migrations`;
  const ask = (text: string, ...values: string[]) => runStatement(tx, { name: "lk_version", text, values });
  const [found] = await ask("select pg_catalog.to_regclass($1::text) is not null as present", migrations);
  if (found?.present !== true) return 0;
  const [newest] = await ask(`select pg_catalog.max(version)::int as version from ${migrations}`);
  return Number(newest?.version ?? 0);
}
