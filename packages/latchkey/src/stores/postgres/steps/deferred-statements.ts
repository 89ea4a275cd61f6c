/** Statements of deferred work: workers claim it, and clients read its status by its id. */
import { sql } from "../sql/texts.ts";
import type { SqlNames } from "../statements/sql-parts.ts";
import { statement } from "../statements/statement.ts";

export function deferredStatements(names: SqlNames) {
  return {
    claimPending: statement("claim_pending", sql.claimPending, names),
    duePending: statement("due_pending", sql.duePending, names),
    claimPendingOne: statement("claim_pending_one", sql.claimPendingOne, names),
    readById: statement("read_by_id", sql.readById, names),
  };
}
