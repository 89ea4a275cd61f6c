/** Statements of a batch: what locks its keys and looks them all up. Lists are JSON texts. */
import { sessionColumns } from "./session-statements.ts";
import { exactly, recordColumn, type SqlNames, whereRead } from "./sql-parts.ts";
import { template } from "./template.ts";
import { limits, transactionTime } from "./transaction-statements.ts";

export function batchStatements(names: SqlNames) {
  return {
    openBatch: template("open_batch", openBatch(names)),
    lookBatch: template("look_batch", lookBatch(names)),
  };
}

/** As `open`, with a `t` or an `f` for each lock in their order. */
function openBatch({ serverLimits }: SqlNames): string {
  return `select (select pg_catalog.string_agg(
      case when pg_catalog.pg_try_advisory_xact_lock(l.lock::bigint) then 't' else 'f' end, '' order by l.place)
    from pg_catalog.json_array_elements_text(@locks::text::json) with ordinality l(lock, place)) as exclusive,
    ${transactionTime} as began, ${sessionColumns}${serverLimits ? `, ${limits}` : ""}`;
}

/** As `look`, with a row for each key in their order. A join would be planned for how few rows the table had at first. */
function lookBatch(names: SqlNames): string {
  const { records, clock } = names;
  return `select ${exactly("t.at")} as now, t.standby, t.standbys,
    (select ${recordColumn} from ${records} r
      where r.tenant = k.tenant and r.scope = k.scope and r.key = k.key) as record
    from (select ${clock} as at, ${whereRead(names)} offset 0) t,
      pg_catalog.json_to_recordset(@keys::text::json) k(place int, tenant text, scope text, key text)
    order by k.place`;
}
