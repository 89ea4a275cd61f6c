-- Parked records have an index in this order; pending records have one of their own, and are sorted. A list of
-- finished records reads the whole table.
select b.standby, x.*
from (select pg_catalog.pg_is_in_recovery() as standby) b
left join lateral (select pg_catalog.encode(pg_catalog.record_send(r), 'hex') as record,
    pg_catalog.encode(pg_catalog.timestamptz_send(l.locked_until), 'hex') as lease_ends_at
  from (
    select x.*
    from latchkey.records x
    where true and x.state = :'state'::text
      and (x.created_at, x.id) > ( coalesce(timestamptz 'epoch' + :'after_ms'::float8 * interval
          '1 millisecond', '-infinity'::timestamptz),
          coalesce(:'after_id'::uuid, '00000000-0000-0000-0000-000000000000'::uuid))
      and (:'only_tenant'::text is null or x.tenant = :'only_tenant'::text)
      and (:'only_operation'::text is null or x.operation = :'only_operation'::text)
    order by x.created_at, x.id
    limit :'limit'::int) r
  left join lateral (select l.locked_until
    from latchkey.leases l
    where l.tenant = r.tenant and l.scope = r.scope and l.key = r.key and l.record_id = r.id
      and l.token = r.token
    limit 1) l on true
  order by r.created_at, r.id) x on true;
