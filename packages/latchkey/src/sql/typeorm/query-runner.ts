/**
 * A TypeORM query runner on a `pg` client whose transaction Latchkey has opened. TypeORM never connects it, and begins and
 * ends nothing on it: the runner has the guarded client, and starts at the depth of an open transaction, so that every
 * transaction inside is a savepoint. Everything that relies on more than TypeORM's documentation is in this file.
 */
import type { LatchkeyError } from "../../errors.ts";
import type { QueryClient } from "../pg-clients/callback-queries.ts";
import { refusedEnd, refusedRollback } from "../refused-end.ts";
import type { TypeormDataSource } from "./data-source.ts";

/** Names of TypeORM's events: subscribers have a method for each. */
export type TransactionEvent =
  | "BeforeTransactionCommit"
  | "AfterTransactionCommit"
  | "AfterTransactionRollback";

/** `PostgresQueryRunner` of TypeORM 0.3 and 1, with members that its published types leave out. */
interface QueryRunner<M> {
  readonly manager: M;
  readonly broadcaster: { broadcast(event: TransactionEvent): Promise<unknown> };
  databaseConnection?: object;
  isTransactionActive: boolean;
  transactionDepth: number;
  connect(): Promise<object>;
  commitTransaction(): Promise<void>;
  rollbackTransaction(): Promise<void>;
  release(): Promise<void>;
}

export interface OpenedRunner<M> {
  readonly manager: M;
  /** The error with which a call of `rollbackTransaction()` was refused; null if there was no call. */
  refusal(): LatchkeyError | null;
  /** Calls the methods of the DataSource's subscribers for this event. */
  notify(event: TransactionEvent): Promise<unknown>;
}

/** @throws {TypeError} when TypeORM has changed how it keeps a connection and its depth */
export async function openRunner<D extends TypeormDataSource>(
  dataSource: D,
  client: QueryClient,
): Promise<OpenedRunner<D["manager"]>> {
  const runner = dataSource.createQueryRunner("master") as QueryRunner<D["manager"]>;
  if (runner.transactionDepth !== 0 || runner.isTransactionActive !== false) throw unsupported();
  runner.databaseConnection = client;
  runner.isTransactionActive = true;
  runner.transactionDepth = 1;
  if ((await runner.connect()) !== client) throw unsupported();
  const refusal = refuseEnds(runner);
  return {
    manager: runner.manager,
    refusal,
    notify: (event) => runner.broadcaster.broadcast(event),
  };
}

function unsupported(): TypeError {
  return new TypeError("This version of TypeORM is not supported: its query runner has another shape");
}

/** Returns a function that returns the error with which an attempt to roll back was refused. */
function refuseEnds(runner: QueryRunner<unknown>): () => LatchkeyError | null {
  const { commitTransaction, rollbackTransaction } = runner;
  const { call, refusal } = refusedRollback("rollbackTransaction()");
  const isInside = () => runner.transactionDepth > 1;
  runner.commitTransaction = async () => {
    if (!isInside()) throw refusedEnd("commitTransaction()");
    await Reflect.apply(commitTransaction, runner, []);
  };
  runner.rollbackTransaction = () => (isInside() ? Reflect.apply(rollbackTransaction, runner, []) : call());
  runner.release = async () => {
    throw refusedEnd("release()");
  };
  return refusal;
}
