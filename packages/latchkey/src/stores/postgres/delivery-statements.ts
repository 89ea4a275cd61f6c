/** Statements of effects that ride with COMMIT: what a transaction or a phase enqueues, and the end of a delivery. */
import { sql } from "./sql/texts.ts";
import type { SqlNames } from "./sql-parts.ts";
import { statement } from "./statement.ts";

export function deliveryStatements(names: SqlNames) {
  return {
    enqueue: statement("enqueue", sql.enqueue, names),
    /** A service that is not traced sends no parameter for it. */
    enqueueTraced: statement("enqueue_traced", sql.enqueueTraced, names),
    finishEffect: statement("finish_effect", sql.finishEffect, names),
    answerByEffect: statement("answer_by_effect", sql.answerByEffect, names),
  };
}
