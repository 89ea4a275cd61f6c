/** Statements that settle what is unknown and show it. Each settlement locks the record, then its steps, then audits. */
import {
  after,
  commitSettings,
  exactly,
  guardHolds,
  keyIs,
  leaseOfRecord,
  onPrimary,
  recordColumns,
  type SqlNames,
  standbys,
  timeOf,
} from "./sql-parts.ts";
import { template } from "./template.ts";

export function settlementStatements(names: SqlNames) {
  return {
    settleFinished: template("settle_finished", settleFinished(names)),
    settleNotExecuted: template("settle_not_executed", settleNotExecuted(names)),
    settleCall: template("settle_call", settleCall(names)),
    hasten: template("hasten", hasten(names)),
    settled: template("settled", settled(names)),
    claimUnknowns: template("claim_unknowns", claimUnknowns(names)),
    postpone: template("postpone", postpone(names)),
    resumable: template("resumable", resumable(names)),
    listParked: template("list_parked", list(names, "r.state in ('retryable', 'unknown')")),
    listPending: template("list_pending", list(names, "r.state = 'pending'")),
    listRunning: template("list_running", listRunning(names)),
    list: template("list", list(names, "true")),
    audit: template("audit", audit(names)),
    listAudit: template("list_audit", listAudit(names)),
    listAuditOfTenant: template("list_audit_of_tenant", listAuditOfTenant(names)),
  };
}

const isUnknown = `${guardHolds} and r.state = 'unknown'`;

/** Of the record that `r` has moved. */
function note({ audit }: SqlNames, to: string): string {
  return `note as (
      insert into ${audit} (id, at, tenant, scope, key, record_id, event, from_state, to_state, actor, proof, reason)
      select @audit_id::uuid, t.at, @tenant::text, @scope::text, @key::text, r.id, @event::text, 'unknown', ${to},
        @actor::text, @proof::text, @reason::text
      from r, t
      returning 1)`;
}

function settleFinished(names: SqlNames): string {
  return `with ${timeOf(names)},
    r as (
      update ${names.records} r set state = @state::text, answer = @answer::bytea, response_schema_version = 1,
        last_error_code = @error_code::text, input = null, reconcile_after = null, finished_at = t.at,
        expires_at = ${after("t.at", "retention_ms")}, forget_at = ${after("t.at", "forget_after_ms")}
      from t where ${keyIs("r")} and ${isUnknown}
      returning r.id),
    ${note(names, "@state::text")}
    select 1 as settled, ${commitSettings(names)} from r`;
}

/** The record, locked before its steps are touched. */
function free({ records }: SqlNames): string {
  return `free as materialized (
      select r.id from ${records} r where ${keyIs("r")} and ${isUnknown} for update)`;
}

/** What led to the doubt stays to be seen until the life goes on. */
function retryable({ records }: SqlNames, set: string, condition: string): string {
  return `r as (
      update ${records} r set state = 'retryable', reconcile_after = ${after("t.at", "resume_after_ms")}${set}
      from t where r.id = (select id from free) and ${keyIs("r")} and ${isUnknown} and ${condition}
      returning r.id)`;
}

function settleNotExecuted(names: SqlNames): string {
  const isAsNamed = "(@call::text is null or exists (select 1 from reopened))";
  return `with ${timeOf(names)}, ${free(names)},
    reopened as (
      update ${names.steps} s set state = 'not_executed', generation = s.generation + 1,
        downstream_key = @downstream_key::text, sends = 0
      from free where s.record_id = free.id and s.name = @call::text and s.kind = 'call'
        and s.generation = @generation::int and s.state = 'started'
      returning 1),
    undone as (
      update ${names.steps} s set state = 'not_executed'
      from free where s.record_id = free.id and s.kind = 'call' and s.state = 'started'
        and @never_happened::boolean and s.name is distinct from @call::text and ${isAsNamed}
      returning 1),
    ${retryable(names, "", isAsNamed)},
    ${note(names, "'retryable'")}
    select 1 as settled, ${commitSettings(names)} from r`;
}

function settleCall(names: SqlNames): string {
  return `with ${timeOf(names)}, ${free(names)},
    s as (
      update ${names.steps} s set state = 'finished', result = @result::bytea, finished_at = t.at
      from free, t where s.record_id = free.id and s.name = @call::text and s.kind = 'call'
        and s.generation = @generation::int and s.state = 'started'
      returning s.name),
    ${retryable(names, ", recovery_point = @call::text", "exists (select 1 from s)")},
    ${note(names, "'retryable'")}
    select 1 as settled, ${commitSettings(names)} from r`;
}

/**
 * The guard holds after it as before, so a repetition is known by its audit row. Whoever had to wait for another one compares
 * with the time by then: by its own beginning, what the other one has just ended would still be to come.
 */
function hasten(names: SqlNames): string {
  const { records, audit, clock } = names;
  const isOver = "r.state in ('completed', 'failed', 'expired')";
  const waits = "r.state in ('retryable', 'unknown')";
  // Rounded as the columns are.
  const now = `${clock}::timestamptz(3)`;
  return `with ${timeOf(names)},
    r as (
      update ${records} r set
        expires_at = case when r.state in ('completed', 'failed') then t.at else r.expires_at end,
        forget_at = case when ${isOver} then t.at else r.forget_at end,
        reconcile_after = case when ${waits} then t.at else r.reconcile_after end
      from t where ${keyIs("r")} and ${guardHolds}
        and (${isOver} and r.forget_at > ${now} or ${waits} and coalesce(r.reconcile_after > ${now}, true))
        and not exists (select 1 from ${audit} a where a.id = @audit_id::uuid)
      returning r.id, r.state),
    note as (
      insert into ${audit} (id, at, tenant, scope, key, record_id, event, from_state, to_state, actor, proof, reason)
      select @audit_id::uuid, t.at, @tenant::text, @scope::text, @key::text, r.id,
        case when ${waits} then 'retry' else 'forget' end, r.state, r.state, @actor::text, @proof::text, @reason::text
      from r, t
      returning 1)
    select 1 as hastened, ${commitSettings(names)} from r`;
}

/** Whether a settlement that found nothing to do repeats one that has been done. */
function settled(names: SqlNames): string {
  return onPrimary(
    `select ${standbys(names)} from ${names.audit} a
      where a.id = @audit_id::uuid and a.record_id = @guard_id::uuid`,
  );
}

const operations = "pg_catalog.jsonb_array_elements_text(@operations::text::jsonb) o(name)";

/** Per operation, so that records which this process cannot settle are not read every time. */
function claimUnknowns(names: SqlNames): string {
  const { records } = names;
  return `with ${timeOf(names)}, due as materialized (
      select d.* from ${operations} cross join lateral (
        select r.ctid as row_id, r.id, r.reconcile_after from ${records} r
        where r.state = 'unknown' and r.operation = o.name and r.reconcile_after <= (select at from t)
        order by r.reconcile_after limit @limit::int
        for update skip locked) d
      order by d.reconcile_after limit @limit::int),
    r as (
      update ${records} r set reconcile_after = ${after("t.at", "claim_ms")},
        reconcile_tries = r.reconcile_tries + 1
      from t where r.ctid = any (array(select row_id from due)) and r.state = 'unknown'
      returning r.*)
    select ${recordColumns}, r.reconcile_tries as tries, ${commitSettings(names)}
    from r join due on due.id = r.id cross join (select null::timestamptz as locked_until) l
    order by due.reconcile_after`;
}

function postpone(names: SqlNames): string {
  return `with ${timeOf(names)},
    r as (
      update ${names.records} r set reconcile_after = ${after("t.at", "after_ms")}
      from t where ${keyIs("r")} and ${isUnknown}
      returning 1)
    select 1 as postponed, ${commitSettings(names)} from r`;
}

/** LIMIT 1 around the record of a lease for the same reason as in `endedLeases`. */
function resumable(names: SqlNames): string {
  const { records, leases } = names;
  return onPrimary(`with ${timeOf(names)}
    select y.* from ${operations} cross join lateral (
      (select due.locked_until as due_at, ended.* from ${leases} due
        cross join lateral (
          select ${recordColumns}
          from (select due.*) l join ${records} r on ${leaseOfRecord} and r.state = 'in_progress'
          limit 1) ended
        where due.lease_end = 'resume' and due.attempt < due.attempts_max and due.operation = o.name
          and due.locked_until <= (select at from t) and due.abandon_at > (select at from t)
        order by due.locked_until limit @limit::int)
      union all
      (select r.reconcile_after as due_at, ${recordColumns}
        from ${records} r cross join (select null::timestamptz as locked_until) l
        where r.state = 'retryable' and r.operation = o.name and r.reconcile_after <= (select at from t)
        order by r.reconcile_after limit @limit::int)) y
    order by y.due_at limit @limit::int`);
}

/**
 * What is parked has an index in this order; pending records have one of their own, and are sorted. A list of what is finished
 * reads the whole table.
 */
function list({ records, leases }: SqlNames, which: string): string {
  return onPrimary(`select ${recordColumns} from (
      select x.* from ${records} x
      where ${which.replace("r.", "x.")} and x.state = @state::text and ${isListed}
      order by x.created_at, x.id limit @limit::int) r
    left join lateral (select l.locked_until from ${leases} l where ${leaseOfRecord} limit 1) l on true
    order by r.created_at, r.id`);
}

/** By the leases, of which there is one for each: no index has what is in progress. LIMIT 1 keeps the planner on them. */
function listRunning({ records, leases }: SqlNames): string {
  return onPrimary(`select ${recordColumns}
    from ${leases} l cross join lateral (
      select x.* from ${records} x
      where x.tenant = l.tenant and x.scope = l.scope and x.key = l.key and x.id = l.record_id and x.token = l.token
        and x.state = @state::text and ${isListed}
      limit 1) r
    order by r.created_at, r.id limit @limit::int`);
}

const isListed = `(x.created_at, x.id) > (
          coalesce(${after("timestamptz 'epoch'", "after_ms")}, '-infinity'::timestamptz),
          coalesce(@after_id::uuid, '00000000-0000-0000-0000-000000000000'::uuid))
        and (@only_tenant::text is null or x.tenant = @only_tenant::text)
        and (@only_operation::text is null or x.operation = @only_operation::text)`;

const auditColumns = `a.id::text as id, ${exactly("a.at")} as at, a.tenant, a.scope, a.key,
      a.record_id::text as record_id, a.effect_id::text as effect_id, a.event, a.from_state, a.to_state, a.actor, a.proof, a.reason`;

function listAudit({ audit }: SqlNames): string {
  return onPrimary(`select ${auditColumns} from ${audit} a
    where ${isBefore("a.at")} order by a.at desc, a.id desc limit @limit::int`);
}

/**
 * Sorts the tenant's rows. A walk through `audit_at`, which a plan would take for a short cut, would pass over everybody
 * else's, so the column itself is not named.
 */
function listAuditOfTenant({ audit }: SqlNames): string {
  const at = "a.at + interval '0'";
  return onPrimary(`select ${auditColumns} from ${audit} a
    where a.tenant = @tenant::text and ${isBefore(at)}
    order by ${at} desc, a.id desc limit @limit::int`);
}

const isBefore = (at: string) => `(${at}, a.id) < (
      coalesce(${after("timestamptz 'epoch'", "before_ms")}, 'infinity'::timestamptz),
      coalesce(@before_id::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid))`;

function audit(names: SqlNames): string {
  return onPrimary(`select ${standbys(names)}, ${auditColumns}
    from ${names.audit} a where ${keyIs("a")}
    order by a.at, a.id`);
}
