-- An answer that still exists goes with its key: the edges `purge` and `forget` in one. So do the steps. If the
-- key has to wait for its effects, the answer goes alone. LIMIT 1 keeps the planner from joining the whole outbox.
-- The rows of one batch, locked. By ctid a batch costs a fifth of what it costs by primary key.
-- LIMIT keeps the planner on the primary key.
with t as materialized (select pg_catalog.clock_timestamp() as at),
due as materialized (
  select r.ctid as row_id,
    (select o.id from latchkey.outbox o where o.record_id = r.id and o.state <> 'delivered' limit 1) is null
    as free
  from latchkey.records r
  where (r.state in ('completed', 'failed')
      or (r.state = 'expired'
          and
          (select o.id from latchkey.outbox o where o.record_id = r.id and o.state <> 'delivered' limit 1) is
          null)) and r.forget_at <= (select at from t)
  order by r.forget_at
  limit :'limit'::int
  for update skip locked),
done as (
  delete from latchkey.records r
  where r.ctid = any (array(select row_id from due where free))
    and (r.state in ('completed', 'failed') or r.state = 'expired')
  returning r.tenant, r.scope, r.key, r.id, r.state),
kept as (
  update latchkey.records r
  set state = 'expired', answer = null, response_schema_version = null
  where r.ctid = any (array(select row_id from due where not free)) and r.state in ('completed', 'failed')
  returning 1),
steps as ( delete from latchkey.steps s where s.record_id = any (array(select id from done)) returning 1),
facts as (
  delete from latchkey.facts f
  where f.ctid = any (array(
    select f.ctid
    from done d
    cross join lateral (
      select f.ctid
      from latchkey.facts f
      where f.tenant = d.tenant and f.scope = d.scope and f.key = d.key
      limit 2) f))
  returning 1)
select pg_catalog.count(*)::int as forgotten,
  ((pg_catalog.count(*) filter (where done.state <> 'expired')) +
      (select pg_catalog.count(*) from kept))::int as purged
from done;
