/** Statements on early settlements. */
import {
  commitSettings,
  guardHolds,
  keyIs,
  onPrimary,
  recordColumns,
  type SqlNames,
  timeOf,
} from "./sql-parts.ts";
import { template } from "./template.ts";

export function earlyStatements(names: SqlNames) {
  return {
    keepEarly: template("keep_early", keepEarly(names)),
    earlyOf: template("early_of", earlyOf(names)),
    dueEarly: template("due_early", dueEarly(names)),
    reapEarly: template("reap_early", reapEarly(names)),
  };
}

/** Locks the record: a transaction that makes it unknown waits, and then finds what is kept. */
function keepEarly(names: SqlNames): string {
  return `with ${timeOf(names)},
    free as materialized (
      select r.id from ${names.records} r
      where ${keyIs("r")} and ${guardHolds} and r.state in ('in_progress', 'retryable') for update),
    e as (
      insert into ${names.early} (record_id, audit_id, tenant, scope, key, kept_at, said)
      select free.id, @audit_id::uuid, @tenant::text, @scope::text, @key::text, t.at, @said::text from free, t
      on conflict (record_id, audit_id) do nothing
      returning 1)
    select 1 as kept, (select pg_catalog.count(*)::int from e) as new, ${commitSettings(names)} from free`;
}

function earlyOf({ early }: SqlNames): string {
  return onPrimary(`select e.said from ${early} e where ${keyIs("e")} and e.record_id = @id::uuid
    order by e.kept_at, e.audit_id`);
}

/** LIMIT 1 keeps the planner from reading all records. */
function recordOfEarly({ records }: SqlNames, which: string): string {
  return `select ${which} from ${records} r
      where r.tenant = e.tenant and r.scope = e.scope and r.key = e.key and r.id = e.record_id`;
}

function dueEarly(names: SqlNames): string {
  return onPrimary(`select due.* from ${names.early} e cross join lateral (
      ${recordOfEarly(names, recordColumns).replace(" r\n", " r cross join (select null::timestamptz as locked_until) l\n")}
        and r.state = 'unknown' limit 1) due
    where e.kept_at <= (select ${names.clock}) order by e.kept_at limit @limit::int`);
}

/** Of lives that are over. They block nothing, so they wait a minute. */
function reapEarly(names: SqlNames): string {
  return `with ${timeOf(names)}, due as materialized (
      select e.record_id, e.audit_id from ${names.early} e
      where e.kept_at <= (select at from t) - interval '1 minute' and (
        ${recordOfEarly(names, "r.id")} and r.state in ('in_progress', 'retryable', 'unknown') limit 1) is null
      order by e.kept_at limit @limit::int)
    delete from ${names.early} e using due where e.record_id = due.record_id and e.audit_id = due.audit_id`;
}
