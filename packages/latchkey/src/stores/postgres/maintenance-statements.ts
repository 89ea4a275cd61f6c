/** Statements of the background services. Each takes a bounded batch and leaves rows that another transaction is changing. */
import { keyIs, leaseOfRecord, onPrimary, recordColumns, type SqlNames, timeOf } from "./sql-parts.ts";
import { template } from "./template.ts";

/** Whether some transaction holds the advisory lock of a key. It is looked at, never requested, so this never waits. */
const isRunning = `select exists (
    select 1 from pg_catalog.pg_locks l
    where l.locktype = 'advisory' and l.granted and l.objsubid = 1
      and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = pg_catalog.current_database())
      and l.classid = ((@lock::text::bigint >> 32) & 4294967295)::oid
      and l.objid = (@lock::text::bigint & 4294967295)::oid) as running`;

export function maintenanceStatements(names: SqlNames) {
  return {
    settings: template("settings", `select name, value from ${names.settings}`),
    endedLeases: template("ended_leases", endedLeases(names)),
    abandon: template("abandon", abandon(names)),
    forget: template("forget", forget(names)),
    dueToForget: template("due_to_forget", dueToForget(names)),
    forgetNamed: template("forget_named", forgetNamed(names)),
    purge: template("purge", purge(names)),
    reapLeases: template("reap_leases", reapLeases(names)),
    isRunning: template("is_running", isRunning),
    summary: template("summary", summary(names)),
  };
}

/**
 * LIMIT 1 in the sub-select keeps the planner on the two indexes: freely joined, it guesses that many leases have ended
 * and reads the whole table of records.
 */
function endedLeases({ records, leases, clock }: SqlNames): string {
  return `select ended.* from ${leases} due
    cross join lateral (
      select l.lease_end, l.attempts_max, ${recordColumns}
      from (select due.*) l join ${records} r on ${leaseOfRecord} and r.state = 'in_progress'
      limit 1) ended
    where due.rescue_at <= (select ${clock})
    order by due.rescue_at limit @limit::int`;
}

/** The rows of one batch, locked. By ctid a batch costs a fifth of what it costs by primary key. */
function due(names: SqlNames, time: string, where: string, also = ""): string {
  return `${timeOf(names)}, due as materialized (
      select r.ctid as row_id${also} from ${names.records} r
      where ${where} and r.${time} <= (select at from t)
      order by r.${time} limit @limit::int
      for update skip locked)`;
}

const isDue = "r.ctid = any (array(select row_id from due))";

/** Kept as long again as it had waited, so that its client can still learn of it. */
function abandon(names: SqlNames): string {
  return `with ${due(names, "expires_at", "r.state = 'pending' and r.forget_at is null")},
    done as (
      update ${names.records} r set state = 'failed', last_error_code = 'timeout', input = null, finished_at = t.at,
        expires_at = t.at + (r.expires_at - r.created_at), forget_at = t.at + (r.expires_at - r.created_at)
      from t where ${isDue} and r.state = 'pending'
      returning 1)
    select pg_catalog.count(*)::int as abandoned from done`;
}

function summary({ records }: SqlNames): string {
  return onPrimary(`select pg_catalog.encode(r.summary, 'hex') as summary from ${records} r
    where ${keyIs("r")} and r.id = @id::uuid`);
}

const finished = "r.state in ('completed', 'failed')";

function effectsAreDelivered({ outbox }: SqlNames): string {
  return `(select o.id from ${outbox} o where o.record_id = r.id and o.state <> 'delivered' limit 1) is null`;
}

/** LIMIT keeps the planner on the primary key. */
function factsGo({ facts }: SqlNames): string {
  return `facts as (
      delete from ${facts} f
      where f.ctid = any (array(
        select f.ctid from done d cross join lateral (
          select f.ctid from ${facts} f where f.tenant = d.tenant and f.scope = d.scope and f.key = d.key limit 2) f))
      returning 1)`;
}

/** The records that `forget` would remove, as they are. */
function dueToForget(names: SqlNames): string {
  return onPrimary(`select ${recordColumns}, pg_catalog.encode(r.summary, 'hex') as summary from ${names.records} r
      cross join (select null::timestamptz as locked_until) l
    where (${finished} or r.state = 'expired') and r.forget_at <= (select ${names.clock}) and ${effectsAreDelivered(names)}
    order by r.forget_at limit @limit::int`);
}

function forgetNamed(names: SqlNames): string {
  return `with ${timeOf(names)},
    due as materialized (
      select r.ctid as row_id from ${names.records} r
      where r.id = any (array(select x.id::uuid from pg_catalog.jsonb_array_elements_text(@ids::text::jsonb) x(id)))
        and (${finished} or r.state = 'expired') and r.forget_at <= (select at from t) and ${effectsAreDelivered(names)}
      for update skip locked),
    done as (
      delete from ${names.records} r where ${isDue} and (${finished} or r.state = 'expired')
      returning r.tenant, r.scope, r.key, r.id),
    steps as (
      delete from ${names.steps} s where s.record_id = any (array(select id from done))
      returning 1),
    ${factsGo(names)}
    select pg_catalog.count(*)::int as forgotten from done`;
}

/**
 * An answer that is still there goes with its key: the edges `purge` and `forget` in one. So do the steps. Where the key
 * has to wait for its effects the answer goes alone. LIMIT 1 keeps the planner from joining the whole outbox.
 */
function forget(names: SqlNames): string {
  const isDelivered = effectsAreDelivered(names);
  const may = `(${finished} or (r.state = 'expired' and ${isDelivered}))`;
  return `with ${due(names, "forget_at", may, `, ${isDelivered} as free`)},
    done as (
      delete from ${names.records} r
      where r.ctid = any (array(select row_id from due where free)) and (${finished} or r.state = 'expired')
      returning r.tenant, r.scope, r.key, r.id, r.state),
    kept as (
      update ${names.records} r set state = 'expired', answer = null, response_schema_version = null
      where r.ctid = any (array(select row_id from due where not free)) and ${finished}
      returning 1),
    steps as (
      delete from ${names.steps} s where s.record_id = any (array(select id from done))
      returning 1),
    ${factsGo(names)}
    select pg_catalog.count(*)::int as forgotten,
      ((pg_catalog.count(*) filter (where done.state <> 'expired')) + (select pg_catalog.count(*) from kept))::int as purged
    from done`;
}

function purge(names: SqlNames): string {
  return `with ${due(names, "expires_at", `${finished} and r.expires_at < r.forget_at`)},
    done as (
      update ${names.records} r set state = 'expired', answer = null, response_schema_version = null
      where ${isDue} and r.state in ('completed', 'failed')
      returning 1)
    select pg_catalog.count(*)::int as purged from done`;
}

/**
 * Leases whose attempt is over, which a phase above READ COMMITTED leaves when its process dies right after its COMMIT.
 * They block nothing, so they wait a minute: this statement may not see the record of a lease that is younger than
 * itself.
 */
function reapLeases(names: SqlNames): string {
  const { records, leases } = names;
  return `with ${timeOf(names)}, due as materialized (
      select l.ctid as row_id from ${leases} l
      where l.rescue_at <= (select at from t) - interval '1 minute' and (
        select r.id from ${records} r where ${leaseOfRecord} and r.state = 'in_progress' limit 1) is null
      order by l.rescue_at limit @limit::int
      for update of l skip locked)
    delete from ${leases} l where l.ctid = any (array(select row_id from due))`;
}
