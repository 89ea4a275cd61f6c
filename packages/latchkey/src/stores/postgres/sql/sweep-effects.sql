-- An audit row for each row in one of the states that `done` returns.
with t as materialized (select pg_catalog.clock_timestamp() as at),
page as materialized (
  select o.id,
    case when o.tenant = :'tenant'::text then case o.state when 'delivered' then 'over' when 'dead' then
    'undecided' else 'under_way' end end as status
  from latchkey.outbox o
  where o.id > :'after_id'::uuid
  order by o.id
  limit :'limit'::int),
free as materialized (
  select o.id
  from latchkey.outbox o
  where o.id = any (array(select id
    from page
    where :'remove'::boolean and (status = 'over' or (status = 'undecided' and :'undecided'::boolean))))
    and o.state in ('delivered', 'dead')
  for update skip locked),
done as (
  delete from latchkey.outbox o
  where o.id = any (array(select id from free)) and o.state in ('delivered', 'dead')
  returning o.id, o.scope, o.key, o.record_id, o.state),
notes as (
  insert into latchkey.audit
    (id, at, tenant, scope, key, record_id, event, from_state, to_state, actor, proof, reason, effect_id)
  select pg_catalog.gen_random_uuid(), t.at, :'tenant'::text, d.scope, d.key, d.record_id, 'delete_tenant',
    d.state, 'none', :'actor'::text, 'operator', :'reason'::text, d.id
  from done d, t
  where d.state in ('dead')
  returning 1)
select '' as after_scope, '' as after_key, p.id::text as after_id, p.status,
  p.id = any (array(select id from done)) as removed
from page p
order by p.id;
