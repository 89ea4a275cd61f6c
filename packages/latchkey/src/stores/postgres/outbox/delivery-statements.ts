/** Statements of effects that are sent with COMMIT: a transaction or a phase enqueues effects, and a delivery ends. */
import { sql } from "../sql/texts.ts";
import type { SqlNames } from "../statements/sql-parts.ts";
import { statement } from "../statements/statement.ts";

export function deliveryStatements(names: SqlNames) {
  const traced = { ...names, traced: true };
  return {
    enqueue: statement("enqueue", sql.enqueue, names),
    enqueueTraced: statement("enqueue_traced", sql.enqueue, traced),
    finishEffect: statement("finish_effect", sql.finishEffect, names),
    answerByEffect: statement("answer_by_effect", sql.answerByEffect, names),
  };
}
