/**
 * Statements that count and remove what is kept of one tenant: a page each, in the order of an index, whose rows say how each
 * stands and whether it went. What another transaction is changing is left. Ids go through arrays, for a join of the page
 * lets the planner read the whole table.
 */
import { type TenantPart, tenantDeletion } from "../tenant-data.ts";
import { type SqlNames, timeOf } from "./sql-parts.ts";
import { type StatementTemplate, template } from "./template.ts";

export function tenantStatements(names: SqlNames) {
  return {
    sweepEffects: template("sweep_effects", sweepEffects(names)),
    sweepMessages: template("sweep_messages", sweepMessages(names)),
    sweepRecords: template("sweep_records", sweepRecords(names)),
    sweepEarly: template("sweep_early", sweepEarly(names)),
    sweepAudit: template("sweep_audit", sweepAudit(names)),
    noteDeletion: template("note_deletion", noteDeletion(names)),
    cleanAudit: template("clean_audit", cleanAudit(names)),
  };
}

export function sweepOf(
  statements: ReturnType<typeof tenantStatements>,
): Readonly<Record<TenantPart, StatementTemplate>> {
  return {
    effects: statements.sweepEffects,
    messages: statements.sweepMessages,
    records: statements.sweepRecords,
    early: statements.sweepEarly,
    audit: statements.sweepAudit,
  };
}

const isOver = "@remove::boolean and standing = 'over'";
const mayGo = "@remove::boolean and (standing = 'over' or (standing = 'undecided' and @undecided::boolean))";
const auditColumns =
  "id, at, tenant, scope, key, record_id, event, from_state, to_state, actor, proof, reason, effect_id";

/** An audit row for each row in one of the states that `done` returns. */
function noted({ audit }: SqlNames, record: string, states: string, effect = "null::uuid"): string {
  return `notes as (
      insert into ${audit} (${auditColumns})
      select pg_catalog.gen_random_uuid(), t.at, @tenant::text, d.scope, d.key, ${record}, '${tenantDeletion}', d.state,
        'none', @actor::text, 'operator', @reason::text, ${effect}
      from done d, t where d.state in (${states})
      returning 1)`;
}

function sweepEffects(names: SqlNames): string {
  const { outbox } = names;
  return `with ${timeOf(names)},
    page as materialized (
      select o.id, case when o.tenant = @tenant::text then
          case o.state when 'delivered' then 'over' when 'dead' then 'undecided' else 'under_way' end end as standing
      from ${outbox} o where o.id > @after_id::uuid order by o.id limit @limit::int),
    free as materialized (
      select o.id from ${outbox} o
      where o.id = any (array(select id from page where ${mayGo})) and o.state in ('delivered', 'dead')
      for update skip locked),
    done as (
      delete from ${outbox} o where o.id = any (array(select id from free)) and o.state in ('delivered', 'dead')
      returning o.id, o.scope, o.key, o.record_id, o.state),
    ${noted(names, "d.record_id", "'dead'", "d.id")}
    select '' as after_scope, '' as after_key, p.id::text as after_id, p.standing,
      p.id = any (array(select id from done)) as removed
    from page p order by p.id`;
}

function sweepMessages(names: SqlNames): string {
  const { messages } = names;
  return `with ${timeOf(names)},
    page as materialized (
      select m.digest, case when m.tenant = @tenant::text then
          case m.state when 'dead' then 'undecided' else 'over' end end as standing
      from ${messages} m where m.digest > pg_catalog.decode(@after_scope::text, 'hex')
      order by m.digest limit @limit::int),
    free as materialized (
      select m.digest from ${messages} m
      where m.digest = any (array(select digest from page where ${mayGo})) and (m.state <> 'dead' or @undecided::boolean)
      for update skip locked),
    done as (
      delete from ${messages} m where m.digest = any (array(select digest from free))
      returning m.digest, m.id, m.operation as scope, coalesce(m.key, '') as key, m.state),
    ${noted(names, "d.id", "'dead'")}
    select pg_catalog.encode(p.digest, 'hex') as after_scope, '' as after_key, null as after_id, p.standing,
      p.digest = any (array(select digest from done)) as removed
    from page p order by p.digest`;
}

/** Facts also go where they were left without a record. Steps and early settlements go with their record; a lease is left by no attempt that has ended but one that crashed. */
function sweepRecords(names: SqlNames): string {
  const { records, outbox } = names;
  const hasEffect = (states: string) =>
    `(select o.id from ${outbox} o where o.record_id = r.id and o.state in (${states}) limit 1) is not null`;
  const settled = "r.state not in ('pending', 'in_progress')";
  return `with ${timeOf(names)},
    page as materialized (
      select r.scope, r.key, r.id, case
          when not (${settled}) or ${hasEffect("'pending', 'claimed'")} then 'under_way'
          when r.state in ('retryable', 'unknown') or ${hasEffect("'dead'")} then 'undecided'
          else 'over' end as standing
      from ${records} r
      where r.tenant = @tenant::text and (r.scope, r.key) > (@after_scope::text, @after_key::text)
      order by r.scope, r.key limit @limit::int),
    free as materialized (
      select r.id from ${records} r
      where r.id = any (array(select id from page where ${mayGo})) and ${settled}
        and (r.state not in ('retryable', 'unknown') or @undecided::boolean)
      for update skip locked),
    done as (
      delete from ${records} r where r.id = any (array(select id from free)) and ${settled}
      returning r.id, r.scope, r.key, r.state),
    steps as (
      delete from ${names.steps} s where s.record_id = any (array(select id from done))
      returning 1),
    early as (
      delete from ${names.early} e where e.record_id = any (array(select id from done))
      returning 1),
    facts as (
      delete from ${names.facts} f
      where @remove::boolean and f.tenant = @tenant::text and (f.scope, f.key) > (@after_scope::text, @after_key::text)
        and ((select pg_catalog.count(*) from page) < @limit::int
          or (f.scope, f.key) <= (select p.scope, p.key from page p order by p.scope desc, p.key desc limit 1))
        and not exists (
          select 1 from page p where p.scope = f.scope and p.key = f.key and p.id <> all (array(select id from done)))
      returning 1),
    leases as (
      delete from ${names.leases} l
      where l.tenant = @tenant::text and l.record_id = any (array(select id from done))
      returning 1),
    ${noted(names, "d.id", "'retryable', 'unknown'")}
    select p.scope as after_scope, p.key as after_key, null as after_id, p.standing,
      p.id = any (array(select id from done)) as removed
    from page p order by p.scope, p.key`;
}

function sweepEarly(names: SqlNames): string {
  const { early, records } = names;
  return `with page as materialized (
      select e.record_id, e.audit_id, case when e.tenant = @tenant::text
          and (select r.id from ${records} r where r.id = e.record_id limit 1) is null then 'over' end as standing
      from ${early} e
      where (e.record_id, e.audit_id) > (@after_id::uuid, @after_audit_id::uuid)
      order by e.record_id, e.audit_id limit @limit::int),
    done as (
      delete from ${early} e where e.record_id = any (array(select record_id from page where ${isOver}))
        and e.tenant = @tenant::text
      returning e.record_id)
    select '' as after_scope, p.audit_id::text as after_key, p.record_id::text as after_id, p.standing,
      p.record_id = any (array(select record_id from done)) as removed
    from page p order by p.record_id, p.audit_id`;
}

function sweepAudit(names: SqlNames): string {
  const { audit } = names;
  return `with page as materialized (
      select a.scope, a.key, a.id, case when a.event <> '${tenantDeletion}' then 'over' end as standing
      from ${audit} a
      where a.tenant = @tenant::text
        and (a.scope, a.key, a.id) > (@after_scope::text, @after_key::text, @after_id::uuid)
      order by a.scope, a.key, a.id limit @limit::int),
    done as (
      delete from ${audit} a where a.id = any (array(select id from page where ${isOver}))
      returning a.id)
    select p.scope as after_scope, p.key as after_key, p.id::text as after_id, p.standing,
      p.id = any (array(select id from done)) as removed
    from page p order by p.scope, p.key, p.id`;
}

function noteDeletion(names: SqlNames): string {
  return `with ${timeOf(names)}
    insert into ${names.audit} (${auditColumns})
    select @audit_id::uuid, t.at, @tenant::text, '', '', @audit_id::uuid, '${tenantDeletion}', 'none', 'none',
      @actor::text, 'operator', @reason::text, null::uuid
    from t
    on conflict (id) do nothing`;
}

function cleanAudit(names: SqlNames): string {
  return `with ${timeOf(names)},
    due as materialized (
      select a.id from ${names.audit} a
      where a.at <= (select at from t) - @keep_ms::float8 * interval '1 millisecond'
      order by a.at limit @limit::int
      for update skip locked),
    done as (
      delete from ${names.audit} a where a.id = any (array(select id from due))
      returning 1)
    select pg_catalog.count(*)::int as audit from done`;
}
