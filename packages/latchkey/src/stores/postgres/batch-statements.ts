/** Statements of a batch: they lock its keys and look all of them up. Lists are JSON texts. */
import { sessionColumns } from "./session-statements.ts";
import { commitSettingsOnce, exactly, recordColumn, type SqlNames, whereRead } from "./sql-parts.ts";
import { template } from "./template.ts";
import { limits, timeInTransaction, transactionTime } from "./transaction-statements.ts";

export function batchStatements(names: SqlNames) {
  return {
    openBatch: template("open_batch", openBatch(names)),
    lookBatch: template("look_batch", lookBatch(names)),
    completeBatch: template("complete_batch", completeBatch(names, lifeColumns)),
    // A service without tracing has no value for that column.
    completeBatchTraced: template(
      "complete_batch_traced",
      completeBatch(names, { ...lifeColumns, trace: "x.trace" }),
    ),
  };
}

/** As `open`, with a `t` or an `f` for each lock in their order. */
function openBatch({ serverLimits }: SqlNames): string {
  return `select (select pg_catalog.string_agg(
      case when pg_catalog.pg_try_advisory_xact_lock(l.lock::bigint) then 't' else 'f' end, '' order by l.place)
    from pg_catalog.json_array_elements_text(@locks::text::json) with ordinality l(lock, place)) as exclusive,
    ${transactionTime} as began, ${sessionColumns}${serverLimits ? `, ${limits}` : ""}`;
}

/** As `look`, with a row for each key in their order. Not a join, because it would be planned for the few rows that the table had at first. */
function lookBatch(names: SqlNames): string {
  const { records, clock } = names;
  return `select ${exactly("t.at")} as now, t.standby, t.standbys,
    (select ${recordColumn} from ${records} r
      where r.tenant = k.tenant and r.scope = k.scope and r.key = k.key) as record
    from (select ${clock} as at, ${whereRead(names)} offset 0) t,
      pg_catalog.json_to_recordset(@keys::text::json) k(place int, tenant text, scope text, key text)
    order by k.place`;
}

const lifeColumns = {
  id: "x.id",
  operation: "x.operation",
  fingerprint_version: "x.fingerprint_version",
  fingerprint: bytes("fingerprint"),
  principal: "x.principal",
  attempt: "x.attempt",
  token: "x.token",
  summary: bytes("summary"),
};

const completedColumns = {
  state: "'completed'",
  answer: bytes("answer"),
  response_schema_version: "1",
  finished_at: "t.at",
  expires_at: "t.at + x.retention_ms * interval '1 millisecond'",
  forget_at: "t.at + x.forget_after_ms * interval '1 millisecond'",
};

function bytes(column: string): string {
  return `pg_catalog.decode(x.${column}, 'hex')`;
}

/** As `complete`, for many records. */
function completeBatch(names: SqlNames, life: Readonly<Record<string, string>>): string {
  const all = { ...life, ...completedColumns };
  return `insert into ${names.records} (tenant, scope, key, created_at, ${Object.keys(all).join(", ")})
    select x.tenant, x.scope, x.key, t.at, ${Object.values(all).join(", ")}
    from (select ${timeInTransaction(names)} as at offset 0) t,
      pg_catalog.json_to_recordset(@lives::text::json) x(tenant text, scope text, key text, id uuid, operation text,
        fingerprint_version smallint, fingerprint text, principal text, attempt int, token uuid, summary text, trace text,
        answer text, retention_ms float8, forget_after_ms float8)
    returning id::text as id, ${exactly("expires_at")} as expires_at, ${commitSettingsOnce(names)}`;
}
