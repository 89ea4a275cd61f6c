-- Facts are also removed if they were left without a record. Steps and early settlements go with their record; only an
-- attempt that crashed leaves a lease.
-- An audit row for each row in one of the states that `done` returns.
with t as materialized (select pg_catalog.clock_timestamp() as at),
page as materialized (
  select r.scope, r.key, r.id, case when not (r.state not in ('pending', 'in_progress'))
    or (select o.id
      from latchkey.outbox o
      where o.record_id = r.id and o.state in ('pending', 'claimed')
      limit 1) is not null then 'under_way' when r.state in ('retryable', 'unknown')
    or (select o.id from latchkey.outbox o where o.record_id = r.id and o.state in ('dead') limit 1) is not
    null then 'undecided' else 'over' end as status
  from latchkey.records r
  where r.tenant = :'tenant'::text and (r.scope, r.key) > (:'after_scope'::text, :'after_key'::text)
  order by r.scope, r.key
  limit :'limit'::int),
free as materialized (
  select r.id
  from latchkey.records r
  where r.id = any (array(select id
    from page
    where :'remove'::boolean and (status = 'over' or (status = 'undecided' and :'undecided'::boolean))))
    and r.state not in ('pending', 'in_progress')
    and (r.state not in ('retryable', 'unknown') or :'undecided'::boolean)
  for update skip locked),
done as (
  delete from latchkey.records r
  where r.id = any (array(select id from free)) and r.state not in ('pending', 'in_progress')
  returning r.id, r.scope, r.key, r.state),
steps as ( delete from latchkey.steps s where s.record_id = any (array(select id from done)) returning 1),
early as ( delete from latchkey.early e where e.record_id = any (array(select id from done)) returning 1),
facts as (
  delete from latchkey.facts f
  where :'remove'::boolean and f.tenant = :'tenant'::text
    and (f.scope, f.key) > (:'after_scope'::text, :'after_key'::text)
    and ((select pg_catalog.count(*)
      from page) < :'limit'::int
        or (f.scope, f.key) <= (select p.scope, p.key from page p order by p.scope desc, p.key desc limit 1))
    and not exists (
      select 1
      from page p
      where p.scope = f.scope and p.key = f.key and p.id <> all (array(select id from done)))
  returning 1),
leases as (
  delete from latchkey.leases l
  where l.tenant = :'tenant'::text and l.record_id = any (array(select id from done))
  returning 1),
notes as (
  insert into latchkey.audit
    (id, at, tenant, scope, key, record_id, event, from_state, to_state, actor, proof, reason, effect_id)
  select pg_catalog.gen_random_uuid(), t.at, :'tenant'::text, d.scope, d.key, d.id, 'delete_tenant', d.state,
    'none', :'actor'::text, 'operator', :'reason'::text, null::uuid
  from done d, t
  where d.state in ('retryable', 'unknown')
  returning 1)
select p.scope as after_scope, p.key as after_key, null as after_id, p.status,
  p.id = any (array(select id from done)) as removed
from page p
order by p.scope, p.key;
