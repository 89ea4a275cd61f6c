-- Found by their leases, one for each record, because no index has records in progress. LIMIT 1 keeps the planner on the leases.
select b.standby, x.*
from (select pg_catalog.pg_is_in_recovery() as standby) b
left join lateral (select pg_catalog.encode(pg_catalog.record_send(r), 'hex') as record,
    pg_catalog.encode(pg_catalog.timestamptz_send(l.locked_until), 'hex') as lease_ends_at
  from latchkey.leases l
  cross join lateral (
    select x.*
    from latchkey.records x
    where x.tenant = l.tenant and x.scope = l.scope and x.key = l.key and x.id = l.record_id
      and x.token = l.token and x.state = :'state'::text
      and (x.created_at, x.id) > ( coalesce(timestamptz 'epoch' + :'after_ms'::float8 * interval
          '1 millisecond', '-infinity'::timestamptz),
          coalesce(:'after_id'::uuid, '00000000-0000-0000-0000-000000000000'::uuid))
      and (:'only_tenant'::text is null or x.tenant = :'only_tenant'::text)
      and (:'only_operation'::text is null or x.operation = :'only_operation'::text)
    limit 1) r
  order by r.created_at, r.id
  limit :'limit'::int) x on true;
