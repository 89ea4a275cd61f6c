/** The subset of PGlite (`@electric-sql/pglite`) that Latchkey needs, typed structurally. */
import type { SqlValue } from "../transaction.ts";

/** An open PGlite database. The rest of what Latchkey calls is in `PgliteSession`. */
export interface PgliteDatabase {
  readonly waitReady: Promise<void>;
  readonly closed: boolean;
  query: (text: string, values?: never[]) => Promise<{ rows: unknown[] }>;
  transaction: (callback: never) => Promise<unknown>;
  close(): Promise<void>;
}

type PgliteTransaction<D extends PgliteDatabase> = D["transaction"] extends (
  callback: (tx: infer Tx) => Promise<infer _>,
) => unknown
  ? Tx
  : never;

/** The `tx` of a handler: PGlite's own transaction without `rollback`. */
export type PgliteTx<D extends PgliteDatabase> = Omit<PgliteTransaction<D>, "rollback">;

/** A database, or a transaction on it, as Latchkey calls it. PGlite's own types leave values and rows open. */
export interface PgliteQueryable {
  query(
    text: string,
    values: readonly SqlValue[],
    options?: PgliteQueryOptions,
  ): Promise<{ readonly rows: readonly PgliteRow[] }>;
  /** Any number of statements. */
  exec(sql: string): Promise<unknown>;
}

/** How values are converted, by pg_type.oid; other types are converted as the database was configured to. */
interface PgliteQueryOptions {
  readonly rowMode: "object";
  readonly parsers: Readonly<Record<number, (text: string) => SqlValue>>;
  readonly serializers: Readonly<Record<number, (value: SqlValue) => string>>;
}

type PgliteRow = Readonly<Record<string, SqlValue>>;

export interface PgliteSession extends PgliteQueryable {
  transaction<T>(callback: (tx: PgliteQueryable) => Promise<T>): Promise<T>;
  /** Whether the session is inside a transaction now. */
  isInTransaction?(): boolean;
}

/** A `PgliteSession` is the user's own database. */
export function sessionOf(database: PgliteDatabase): PgliteSession {
  return database as PgliteDatabase & PgliteSession;
}
