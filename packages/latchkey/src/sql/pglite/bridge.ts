/**
 * The bridge over PGlite, which has one session for the whole process: while a transaction is open, everything else on
 * the database waits for its end. Therefore a handler must not wait for anything else on the same database.
 */

import { LatchkeyError } from "../../errors.ts";
import { guardClient } from "../guard-client.ts";
import { sqlStateOf } from "../sql-state.ts";
import type {
  BridgeOutcome,
  BridgeRequest,
  BridgeSession,
  BridgeWork,
  IsolationLevel,
  SqlRow,
  SqlStatement,
  TransactionBridge,
} from "../transaction.ts";
import {
  type PgliteDatabase,
  type PgliteQueryable,
  type PgliteSession,
  type PgliteTx,
  sessionOf,
} from "./database.ts";
import { runStatement, storeError, withoutValues } from "./statements.ts";

const rules = { statementMethods: ["query", "exec", "sql"], refusedMethods: ["rollback"] };

export function pgliteBridge<D extends PgliteDatabase>(database: D): TransactionBridge<PgliteTx<D>> {
  const session = sessionOf(database);
  return {
    name: "pglite",
    // There is no replication to wait for, and PGlite raises when COMMIT is answered with ROLLBACK.
    commitNotice: true,
    transact: (request, work) => transact(session, request, work),
  };
}

type Refused<T> = Extract<BridgeOutcome<T>, { readonly kind: "refused" }>;

/** How far a transaction had got when PGlite was asked to commit it or to roll it back. */
type End<T> =
  | { readonly kind: "unopened"; readonly error: unknown }
  | { readonly kind: "threw"; readonly error: unknown }
  | { readonly kind: "rolled_back"; readonly value: T }
  | Refused<T>
  | { readonly kind: "closed"; readonly value: T; readonly closed: readonly (readonly SqlRow[])[] };

async function transact<Tx, T>(
  session: PgliteSession,
  request: BridgeRequest,
  work: (open: BridgeSession<Tx>) => Promise<BridgeWork<T>>,
): Promise<BridgeOutcome<T>> {
  const ended: { end?: End<T> } = {};
  try {
    await session.transaction(async (raw) => {
      ended.end = await runWork(session, raw, request, work);
      // PGlite commits whenever its callback returns, so a rollback has to throw.
      if (ended.end.kind !== "closed") throw new Error("Roll back");
    });
  } catch (error) {
    return withoutCommit(ended.end ?? { kind: "unopened", error }, withoutValues(error));
  }
  if (ended.end?.kind !== "closed") throw new TypeError("PGlite committed what was to be rolled back");
  return { ...ended.end, kind: "committed" };
}

function withoutCommit<T>(end: End<T>, error: unknown): BridgeOutcome<T> {
  switch (end.kind) {
    case "unopened":
      throw storeError(end.error, "statement", "The transaction could not be opened");
    case "threw":
      throw end.error;
    case "closed": {
      const sqlState = sqlStateOf(error);
      return sqlState === null
        ? { kind: "in_doubt", value: end.value, error }
        : { kind: "refused", value: end.value, sqlState, during: "commit", error };
    }
    default:
      return end;
  }
}

async function runWork<Tx, T>(
  session: PgliteSession,
  raw: PgliteQueryable,
  request: BridgeRequest,
  work: (open: BridgeSession<Tx>) => Promise<BridgeWork<T>>,
): Promise<End<T>> {
  let opened: readonly (readonly SqlRow[])[];
  try {
    const mode = transactionMode(request.isolation);
    opened = (await runAll(raw, [...mode, ...request.opening])).slice(mode.length);
  } catch (error) {
    return { kind: "unopened", error };
  }
  const { tx, used, mayHaveChangedSession, revoke } = guardClient(raw, rules);
  try {
    const result = await work({
      opened,
      tx: asUsersTransaction<Tx>(tx),
      used,
      mayHaveChangedSession,
      revoke,
    });
    revoke();
    return await conclude(session, raw, result);
  } catch (error) {
    revoke();
    return { kind: "threw", error: hasEnded(session) ? changed(error) : error };
  }
}

async function conclude<T>(
  session: PgliteSession,
  raw: PgliteQueryable,
  result: BridgeWork<T>,
): Promise<End<T>> {
  const { value } = result;
  const ended = hasEnded(session);
  // A statement that is still running cannot be stopped, so an abandoned transaction is rolled back after it.
  if (result.end !== "commit") {
    if (ended) throw changed(undefined);
    return { kind: "rolled_back", value };
  }
  const during = "closing";
  if (ended) return { kind: "refused", value, sqlState: "25P01", during, error: changed(undefined) };
  try {
    return { kind: "closed", value, closed: await runAll(raw, result.closing) };
  } catch (error) {
    return { kind: "refused", value, sqlState: sqlStateOf(error) ?? "XX000", during, error };
  }
}

/** Whether the transaction was ended in a way that the guard does not see. */
function hasEnded(session: PgliteSession): boolean {
  return session.isInTransaction?.() === false;
}

function changed(cause: unknown): LatchkeyError {
  return new LatchkeyError("transaction-changed", { cause });
}

async function runAll(
  raw: PgliteQueryable,
  statements: readonly SqlStatement[],
): Promise<readonly (readonly SqlRow[])[]> {
  const rows: (readonly SqlRow[])[] = [];
  for (const statement of statements) rows.push(await runStatement(raw, statement));
  return rows;
}

function transactionMode(isolation: IsolationLevel | null): readonly SqlStatement[] {
  if (isolation === null) return [];
  return [{ name: "lk_transaction_mode", text: `set transaction isolation level ${isolation}`, values: [] }];
}

/** A `PgliteQueryable` is a transaction of the user's own database, so it has that database's type of transaction. */
function asUsersTransaction<Tx>(tx: PgliteQueryable): Tx {
  return tx as PgliteQueryable & Tx;
}
