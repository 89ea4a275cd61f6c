/** Statements of a batch: they lock its keys and look all of them up. Its locks are a JSON text. */

import { sql } from "../sql/texts.ts";
import type { SqlNames } from "../statements/sql-parts.ts";
import { statement } from "../statements/statement.ts";
import { openingStatement } from "./session-statements.ts";

export function batchStatements(names: SqlNames) {
  const traced = { ...names, traced: true };
  return {
    openBatch: openingStatement("open_batch", sql.openBatch, names),
    lookBatch: statement("look_batch", sql.lookBatch, names),
    completeBatch: statement("complete_batch", sql.completeBatch, names),
    completeBatchTraced: statement("complete_batch_traced", sql.completeBatch, traced),
  };
}
