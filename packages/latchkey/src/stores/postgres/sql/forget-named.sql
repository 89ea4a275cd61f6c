-- LIMIT keeps the planner on the primary key.
with t as materialized (select pg_catalog.clock_timestamp() as at),
due as materialized (
  select r.ctid as row_id
  from latchkey.records r
  where r.id = any
    (array(select x.id::uuid from pg_catalog.jsonb_array_elements_text(:'ids'::text::jsonb) x(id)))
    and (r.state in ('completed', 'failed') or r.state = 'expired') and r.forget_at <= (select at from t)
    and (select o.id from latchkey.outbox o where o.record_id = r.id and o.state <> 'delivered' limit 1) is
    null
  for update skip locked),
done as (
  delete from latchkey.records r
  where r.ctid = any (array(select row_id from due))
    and (r.state in ('completed', 'failed') or r.state = 'expired')
  returning r.tenant, r.scope, r.key, r.id),
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
select pg_catalog.count(*)::int as forgotten
from done;
