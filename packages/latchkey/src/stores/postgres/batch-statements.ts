/** Statements of a batch: they lock its keys and look all of them up. Lists are JSON texts. */
import { sessionColumns } from "./session-statements.ts";
import { sql } from "./sql/texts.ts";
import type { SqlNames } from "./sql-parts.ts";
import { statement } from "./statement.ts";
import { template } from "./template.ts";
import { limits, transactionTime } from "./transaction-statements.ts";

export function batchStatements(names: SqlNames) {
  return {
    openBatch: template("open_batch", openBatch(names)),
    lookBatch: statement("look_batch", sql.lookBatch, names),
    completeBatch: statement("complete_batch", sql.completeBatch, names),
    // A service without tracing has no value for that column.
    completeBatchTraced: statement("complete_batch_traced", sql.completeBatchTraced, names),
  };
}

/** As `open`, with a `t` or an `f` for each lock in their order. */
function openBatch({ serverLimits }: SqlNames): string {
  return `select (select pg_catalog.string_agg(
      case when pg_catalog.pg_try_advisory_xact_lock(l.lock::bigint) then 't' else 'f' end, '' order by l.place)
    from pg_catalog.json_array_elements_text(@locks::text::json) with ordinality l(lock, place)) as exclusive,
    ${transactionTime} as began, ${sessionColumns}${serverLimits ? `, ${limits}` : ""}`;
}
