/**
 * Kysely on a transaction that Latchkey has opened. Kysely is given a dialect, as its documentation describes one, whose
 * only connection is the guarded client: its BEGIN sends nothing, its COMMIT and ROLLBACK are refused.
 */
import { refusedEnd } from "../refused-end.ts";
import type { BridgeSession, BridgeWork } from "../transaction.ts";
import type { KyselyConnection, KyselyQuery } from "./connection.ts";

/** A `Kysely` object, as far as Latchkey needs it. */
export interface KyselyDatabase {
  readonly isTransaction: boolean;
  startTransaction(): { execute(): Promise<unknown> };
  withoutPlugins(): object;
  getExecutor(): KyselyExecutor;
}

interface KyselyExecutor {
  readonly adapter: object;
  readonly plugins: readonly object[];
  compileQuery(node: never, queryId: never): KyselyQuery;
}

/** What handlers get: `ControlledTransaction` with the tables of `db`. */
export type KyselyTx<D extends KyselyDatabase> = Awaited<
  ReturnType<ReturnType<D["startTransaction"]>["execute"]>
>;

/** `log` of Kysely's configuration. */
export type KyselyLog = readonly ("query" | "error")[] | ((event: never) => void | Promise<void>);

type CompileNode = (node: RawNode, queryId?: { readonly queryId: string }) => KyselyQuery;

/** SQL in Kysely's syntax tree. */
interface RawNode {
  readonly kind: "RawNode";
  readonly sqlFragments: readonly string[];
  readonly parameters: readonly object[];
}

type KyselyClass<D> = new (config: {
  readonly dialect: object;
  readonly plugins: readonly object[];
  readonly log: KyselyLog | undefined;
}) => D;

export interface KyselySettings<D> {
  readonly db: D;
  readonly log: KyselyLog | undefined;
  readonly connection: KyselyConnection;
}

/** @throws {TypeError} when `db` is not a Kysely, is too old, is a transaction, or is for a database other than Postgres */
export function checkKysely(db: KyselyDatabase | undefined): void {
  if (typeof db?.getExecutor !== "function") throw new TypeError("db must be a Kysely object");
  if (db.isTransaction) throw new TypeError("db must be a Kysely object, not a transaction of one");
  const probe = probeOf(db);
  if (typeof db.startTransaction !== "function" || probe === null) {
    throw new TypeError("This version of Kysely is not supported: it must be 0.28 or 0.29");
  }
  if (probe !== "select $1") throw new TypeError("db must be made with a dialect for Postgres");
}

/** A statement with one parameter, which each dialect writes in its own way; null if this version of Kysely has other syntax trees. */
function probeOf(db: KyselyDatabase): string | null {
  try {
    return compilerOf(db)(raw("select ", { kind: "ValueNode", value: 1 })).sql;
  } catch {
    return null;
  }
}

export async function workThroughKysely<D extends KyselyDatabase, T>(
  settings: KyselySettings<D>,
  session: Omit<BridgeSession<unknown>, "tx">,
  work: (session: BridgeSession<KyselyTx<D>>) => Promise<BridgeWork<T>>,
): Promise<BridgeWork<T>> {
  const tx = await openThroughKysely(settings);
  const result = await work({ ...session, tx });
  // Kysely's `tx` is marked as rolled back, and a handler that caught the refusal may rely on that.
  const { isRolledBack } = tx as { readonly isRolledBack?: boolean };
  if (isRolledBack && result.end === "commit") throw refusedEnd("rollback()");
  return result;
}

async function openThroughKysely<D extends KyselyDatabase>({
  db,
  log,
  connection,
}: KyselySettings<D>): Promise<KyselyTx<D>> {
  // A subclass of the user's may have another constructor; this returns a plain Kysely.
  const Kysely = db.withoutPlugins().constructor as KyselyClass<D>;
  const { adapter, plugins } = db.getExecutor();
  const dialect = {
    createDriver: () => driverOver(connection),
    createQueryCompiler: () => ({ compileQuery: compilerOf(db) }),
    createAdapter: () => adapter,
    createIntrospector() {
      throw new TypeError("A handler's `tx` has no introspection: use that of `db`");
    },
  };
  const own = new Kysely({ dialect, plugins, log });
  return (await own.startTransaction().execute()) as KyselyTx<D>;
}

/** Kysely's `Driver` with the one connection that it can have. */
function driverOver(connection: KyselyConnection) {
  const nothing = async () => {};
  const run = (words: string) => async (_: unknown, savepoint: string, compile: CompileNode) => {
    await connection.executeQuery(compile(raw(words, { kind: "IdentifierNode", name: savepoint })));
  };
  const refuse = (method: string) => () => Promise.reject(refusedEnd(method));
  return {
    init: nothing,
    acquireConnection: async () => connection,
    beginTransaction: nothing,
    commitTransaction: refuse("commit()"),
    rollbackTransaction: refuse("rollback()"),
    savepoint: run("savepoint "),
    rollbackToSavepoint: run("rollback to "),
    releaseSavepoint: run("release "),
    releaseConnection: nothing,
    destroy: nothing,
  };
}

function compilerOf(db: KyselyDatabase): CompileNode {
  const executor = db.getExecutor() as KyselyExecutor & { compileQuery: CompileNode };
  return (node, queryId = { queryId: "latchkey" }) => executor.compileQuery(node, queryId);
}

function raw(words: string, parameter: object): RawNode {
  return { kind: "RawNode", sqlFragments: [words, ""], parameters: [parameter] };
}
