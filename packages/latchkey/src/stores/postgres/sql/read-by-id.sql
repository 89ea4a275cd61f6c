-- Always one row: the time, and the record if there is one. LIMIT 1 keeps the planner on the index over ids.
select pg_catalog.encode(pg_catalog.timestamptz_send(t.at), 'hex') as now,
  pg_catalog.pg_is_in_recovery() as standby,
  /*[synced*/pg_catalog.current_setting('synchronous_standby_names') <> ''/*|false]*/ as standbys,
  pg_catalog.encode(pg_catalog.record_send(r), 'hex') as record,
  pg_catalog.encode(pg_catalog.timestamptz_send(l.locked_until), 'hex') as lease_ends_at
from (select pg_catalog.clock_timestamp() as at) t
left join lateral (select x.* from latchkey.records x where x.id = :'id'::uuid limit 1) r on :'tenant'::text
  is null or (r.addressable and r.tenant = :'tenant'::text)
left join latchkey.leases l on l.tenant = r.tenant and l.scope = r.scope and l.key = r.key
  and l.record_id = r.id and l.token = r.token;
