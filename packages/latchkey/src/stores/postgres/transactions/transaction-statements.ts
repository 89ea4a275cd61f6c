/** Statements of `transaction` execution: those sent with BEGIN, those sent with COMMIT, and those that settle a doubt. */

import { sql } from "../sql/texts.ts";
import type { SqlNames } from "../statements/sql-parts.ts";
import { statement } from "../statements/statement.ts";
import { template } from "../statements/template.ts";
import { openingStatement } from "./session-statements.ts";

export function transactionStatements(names: SqlNames) {
  const traced = { ...names, traced: true };
  return {
    read: statement("read", sql.read, names),
    readMany: statement("read_many", sql.readMany, names),
    look: statement("look", sql.look, names),
    open: openingStatement("open", sql.open, names),
    savepoint: template("savepoint", "savepoint latchkey_handler"),
    undo: template("undo", "rollback to savepoint latchkey_handler"),
    complete: statement("complete", sql.complete, names),
    completeOver: statement("complete_over", sql.completeOver, names),
    completeTraced: statement("complete_traced", sql.complete, traced),
    completeOverTraced: statement("complete_over_traced", sql.completeOver, traced),
    lose: statement("lose", sql.lose, names),
    waitSettings: statement("wait_settings", sql.waitSettings, names),
    waitLock: statement("wait_lock", sql.waitLock, names),
    barrier: statement("barrier", sql.barrier, names),
  };
}
