/** Statements of the background services. Each takes a bounded batch and leaves rows that another transaction is changing. */
import { sql } from "../sql/texts.ts";
import type { SqlNames } from "../statements/sql-parts.ts";
import { statement } from "../statements/statement.ts";

export function maintenanceStatements(names: SqlNames) {
  return {
    endedLeases: statement("ended_leases", sql.endedLeases, names),
    abandon: statement("abandon", sql.abandon, names),
    forget: statement("forget", sql.forget, names),
    dueToForget: statement("due_to_forget", sql.dueToForget, names),
    forgetNamed: statement("forget_named", sql.forgetNamed, names),
    purge: statement("purge", sql.purge, names),
    reapLeases: statement("reap_leases", sql.reapLeases, names),
    isRunning: statement("is_running", sql.isRunning, names),
    summary: statement("summary", sql.summary, names),
  };
}
