-- ORDER BY keeps the planner on the primary key also for a tenant that has most of the table. The condition on `found`
-- is inside, where it prevents the second look-up altogether.
select x.tenant,
  pg_catalog.encode(pg_catalog.timestamptz_send((select pg_catalog.clock_timestamp())), 'hex') as now,
  coalesce(live.count, found.count) as count,
  pg_catalog.encode(pg_catalog.timestamptz_send(live.first), 'hex') as first
from pg_catalog.jsonb_array_elements_text(:'tenants'::text::jsonb) x(tenant)
cross join lateral (
  select pg_catalog.count(*)::int as count
  from (select 1
    from latchkey.records r
    where r.tenant = x.tenant
    order by r.scope, r.key
    limit :'count_max'::int) r) found
left join lateral (
  select pg_catalog.count(*)::int as count, pg_catalog.min(r.forget_at) as first
  from (
    select r.forget_at
    from latchkey.records r
    where r.tenant = x.tenant and found.count >= :'count_max'::int
      and (r.forget_at is null or r.forget_at > (select pg_catalog.clock_timestamp()))
    order by r.scope, r.key
    limit :'count_max'::int) r
  having found.count >= :'count_max'::int) live on true;
