-- An audit row for each row in one of the states that `done` returns.
with t as materialized (select pg_catalog.clock_timestamp() as at),
page as materialized (
  select m.digest,
    case when m.tenant = :'tenant'::text then case m.state when 'dead' then 'undecided' else 'over' end end as
    status
  from latchkey.messages m
  where m.digest > pg_catalog.decode(:'after_scope'::text, 'hex')
  order by m.digest
  limit :'limit'::int),
free as materialized (
  select m.digest
  from latchkey.messages m
  where m.digest = any (array(select digest
    from page
    where :'remove'::boolean and (status = 'over' or (status = 'undecided' and :'undecided'::boolean))))
    and (m.state <> 'dead' or :'undecided'::boolean)
  for update skip locked),
done as (
  delete from latchkey.messages m
  where m.digest = any (array(select digest from free))
  returning m.digest, m.id, m.operation as scope, coalesce(m.key, '') as key, m.state),
notes as (
  insert into latchkey.audit
    (id, at, tenant, scope, key, record_id, event, from_state, to_state, actor, proof, reason, effect_id)
  select pg_catalog.gen_random_uuid(), t.at, :'tenant'::text, d.scope, d.key, d.id, 'delete_tenant', d.state,
    'none', :'actor'::text, 'operator', :'reason'::text, null::uuid
  from done d, t
  where d.state in ('dead')
  returning 1)
select pg_catalog.encode(p.digest, 'hex') as after_scope, '' as after_key, null as after_id, p.status,
  p.digest = any (array(select digest from done)) as removed
from page p
order by p.digest;
