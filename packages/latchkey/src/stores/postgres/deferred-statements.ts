/** Statements of deferred work: workers claim it, and clients ask after it by its id. */
import {
  commitSettings,
  exactly,
  keyIs,
  leaseOfRecord,
  onPrimary,
  recordColumns,
  type SqlNames,
  timeOf,
  whereRead,
} from "./sql-parts.ts";
import { template } from "./template.ts";

export function deferredStatements(names: SqlNames) {
  return {
    claimPending: template("claim_pending", claimPending(names, isNotSpared)),
    duePending: template("due_pending", duePending(names)),
    claimPendingOne: template("claim_pending_one", claimPending(names, `${keyIs("r")} and r.id = @id::uuid`)),
    readById: template("read_by_id", readById(names)),
  };
}

const wants = `pg_catalog.json_to_recordset(@wants::text::json) as w(operation text, tokens json, room int,
  lease_ms float8, lease_end text, attempts_max int, abandon_after_ms float8)`;

/** Records that this process could not claim are left out for a while, so that they do not block other rows. */
const isNotSpared = `r.id <> all (array(
  select s.id::uuid from pg_catalog.json_array_elements_text(@spared::text::json) s(id)))`;

function due({ records }: SqlNames, which: string): string {
  return `select r.ctid as row_id, r.id, r.created_at, r.tenant, r.scope, r.key from ${records} r
        where r.state = 'pending' and r.operation = w.operation and r.expires_at > (select at from t) and ${which}
        order by r.created_at limit w.room`;
}

/** A life is claimed when it has got one of the tokens, so each token is given to one life. */
function claimPending(names: SqlNames, which: string): string {
  const { records, leases } = names;
  const ms = (column: string) => `w.${column} * interval '1 millisecond'`;
  return `with ${timeOf(names)},
    wants as materialized (
      select w.* from ${wants}),
    due as materialized (
      select d.row_id, d.id, (w.tokens ->> (pg_catalog.row_number() over (partition by w.operation order by d.created_at))::int - 1)::uuid as token
      from wants w cross join lateral (
        ${due(names, which)}
        for update skip locked) d),
    r as (
      update ${records} r set state = 'in_progress', attempt = 1, token = due.token,
        expires_at = r.created_at + ${ms("abandon_after_ms")}
      from due, wants w
      where r.ctid = any (array(select row_id from due)) and r.id = due.id and w.operation = r.operation
        and r.state = 'pending'
      returning r.*),
    l as (
      insert into ${leases} (tenant, scope, key, record_id, operation, attempt, token, locked_until, lease_end,
        attempts_max, abandon_at)
      select r.tenant, r.scope, r.key, r.id, r.operation, r.attempt, r.token, t.at + ${ms("lease_ms")}, w.lease_end,
        w.attempts_max, r.expires_at
      from r join wants w on w.operation = r.operation cross join t
      on conflict (tenant, scope, key) do update set
        record_id = excluded.record_id, operation = excluded.operation, attempt = excluded.attempt,
        token = excluded.token, locked_until = excluded.locked_until, lease_end = excluded.lease_end,
        attempts_max = excluded.attempts_max, abandon_at = excluded.abandon_at
      returning record_id, locked_until)
    select ${recordColumns}, ${commitSettings(names)}
    from r join l on l.record_id = r.id
    order by r.created_at, r.id`;
}

function duePending(names: SqlNames): string {
  return onPrimary(`with ${timeOf(names)}
    select d.id::text as id, d.tenant, d.scope, d.key, w.operation from ${wants} cross join lateral (${due(names, isNotSpared)}) d
    order by d.created_at`);
}

/** One row always: the time, and the record if there is one. LIMIT 1 keeps the planner on the index over ids. */
function readById(names: SqlNames): string {
  return `select ${exactly("t.at")} as now, ${whereRead(names)}, ${recordColumns}
    from (select ${names.clock} as at) t
    left join lateral (select x.* from ${names.records} x where x.id = @id::uuid limit 1) r
      on @tenant::text is null or (r.addressable and r.tenant = @tenant::text)
    left join ${names.leases} l on ${leaseOfRecord}`;
}
