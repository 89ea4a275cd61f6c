/**
 * Sequelize's transaction on a `pg` client whose transaction Latchkey has opened: it is made without being begun, and its
 * connection is the guarded client. Everything that relies on more than Sequelize's documentation is in this file.
 */
import type { LatchkeyError } from "../../errors.ts";
import { type QueryClient, queryWithCallback } from "../pg-clients/callback-queries.ts";
import { refusedEnd, refusedRollback } from "../refused-end.ts";
import type { SequelizeDatabase } from "./pool.ts";

/** The value of `sequelize.transaction()` without a callback. */
export type SequelizeTx<S extends SequelizeDatabase> = Awaited<ReturnType<S["transaction"]>>;

/** `Transaction` of Sequelize 6, with members that its published types leave out. */
interface Transaction {
  readonly id: string;
  readonly savepoints: readonly object[];
  readonly _afterCommitHooks: readonly ((transaction: object) => unknown)[];
  connection?: object;
  commit(): Promise<void>;
  rollback(): Promise<void>;
}

/** A namespace that was given to `Sequelize.useCLS()`. */
interface Namespace {
  run(work: () => void): unknown;
  set(name: "transaction", value: object): unknown;
}

/** The class `Sequelize`, or one derived from it. */
interface SequelizeClass {
  readonly Transaction?: new (sequelize: object, options: object) => Transaction;
  readonly _cls?: Namespace;
}

export interface OpenedSequelize<Tx> {
  readonly tx: Tx;
  /** The error with which a call of `rollback()` was refused; null if there was no call. */
  refusal(): LatchkeyError | null;
  /** Runs work in which queries that name no transaction belong to this one, if CLS is in use. */
  within<T>(work: () => Promise<T>): Promise<T>;
  /** Runs the functions that were given to `afterCommit()`. */
  committed(): Promise<void>;
}

/** @throws {TypeError} when Sequelize has changed how it keeps a connection */
export function openSequelize<S extends SequelizeDatabase>(
  sequelize: S,
  client: QueryClient,
): OpenedSequelize<SequelizeTx<S>> {
  const { Transaction, _cls } = sequelize.constructor as SequelizeClass;
  const transaction = Transaction === undefined ? null : new Transaction(sequelize, {});
  if (!Array.isArray(transaction?._afterCommitHooks) || !Array.isArray(transaction.savepoints)) {
    throw new TypeError("This version of Sequelize is not supported: its transactions have another shape");
  }
  const query = (...args: unknown[]) => queryWithCallback(client, args);
  // A derived object, because Sequelize sets marks of its own on a connection.
  const standIn = Object.create(client, { query: { value: query } }) as { uuid?: string };
  standIn.uuid = transaction.id;
  transaction.connection = standIn;
  const { call, refusal } = refusedRollback("rollback()");
  transaction.rollback = call;
  transaction.commit = async () => {
    throw refusedEnd("commit()");
  };
  return {
    tx: transaction as SequelizeTx<S>,
    refusal,
    within: (work) => (_cls === undefined ? work() : runIn(_cls, transaction, work)),
    async committed() {
      for (const hook of transaction._afterCommitHooks) await Reflect.apply(hook, transaction, [transaction]);
    },
  };
}

function runIn<T>(namespace: Namespace, transaction: object, work: () => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    namespace.run(() => {
      namespace.set("transaction", transaction);
      work().then(resolve, reject);
    });
  });
}
