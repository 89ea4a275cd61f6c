/** Statements on early settlements. */
import { sql } from "../sql/texts.ts";
import type { SqlNames } from "../statements/sql-parts.ts";
import { statement } from "../statements/statement.ts";

export function earlyStatements(names: SqlNames) {
  return {
    keepEarly: statement("keep_early", sql.keepEarly, names),
    earlyOf: statement("early_of", sql.earlyOf, names),
    dueEarly: statement("due_early", sql.dueEarly, names),
    reapEarly: statement("reap_early", sql.reapEarly, names),
  };
}
