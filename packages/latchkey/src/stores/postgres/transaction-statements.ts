/** Statements of `transaction` execution: those sent with BEGIN, those sent with COMMIT, and those that settle a doubt. */
import { sessionColumns } from "./session-statements.ts";
import { sql } from "./sql/texts.ts";
import { commitSettings, exactly, type SqlNames } from "./sql-parts.ts";
import { statement } from "./statement.ts";
import { template } from "./template.ts";

export function transactionStatements(names: SqlNames) {
  return {
    read: statement("read", sql.read, names),
    look: statement("look", sql.look, names),
    open: template("open", open(names)),
    savepoint: template("savepoint", "savepoint latchkey_handler"),
    undo: template("undo", "rollback to savepoint latchkey_handler"),
    complete: statement("complete", sql.complete, names),
    completeOver: statement("complete_over", sql.completeOver, names),
    // A service without tracing sends no parameter for it.
    completeTraced: statement("complete_traced", sql.completeTraced, names),
    completeOverTraced: statement("complete_over_traced", sql.completeOverTraced, names),
    lose: statement("lose", sql.lose, names),
    waitSettings: template("wait_settings", waitSettings(names)),
    waitLock: statement("wait_lock", sql.waitLock, names),
    barrier: statement("barrier", sql.barrier, names),
  };
}

/** Identifies the transaction. */
export const transactionTime = exactly("pg_catalog.now()");

/**
 * Locks the key without waiting. The look-up must be another statement, because the snapshot of this one is older than its
 * lock.
 */
function open({ serverLimits }: SqlNames): string {
  return `select pg_catalog.pg_try_advisory_xact_lock(@lock::text::bigint) as exclusive,
    ${transactionTime} as began, ${sessionColumns}${serverLimits ? `, ${limits}` : ""}`;
}

/**
 * Bounds how long a dead or stuck process can keep the key: when idle, and in a statement that outlives its caller. A
 * lower limit of the user's own stays.
 */
export const limits = `
  ${limit("idle_in_transaction_session_timeout")} as idle_limit, ${limit("statement_timeout")} as statement_limit`;

function limit(name: string): string {
  const present = `pg_catalog.current_setting('${name}')`;
  return `pg_catalog.set_config('${name}', case
    when ${present}::interval between interval '1 millisecond' and @limit_ms::text::float8 * interval '1 millisecond'
    then ${present} else @limit_ms::text end, true)`;
}

function waitSettings(names: SqlNames): string {
  return `select ${limit("lock_timeout")} as lock_limit,
    ${commitSettings(names)}`;
}
