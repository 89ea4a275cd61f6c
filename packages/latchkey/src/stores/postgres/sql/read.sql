-- Always one row: the time, and the record if there is one.
select pg_catalog.encode(pg_catalog.timestamptz_send(t.at), 'hex') as now,
  pg_catalog.pg_is_in_recovery() as standby,
  /*[synced*/pg_catalog.current_setting('synchronous_standby_names') <> ''/*|false]*/ as standbys,
  pg_catalog.encode(pg_catalog.record_send(r), 'hex') as record,
  pg_catalog.encode(pg_catalog.timestamptz_send(l.locked_until), 'hex') as lease_ends_at
from (select pg_catalog.clock_timestamp() as at) t
left join latchkey.records r on r.tenant = :'tenant'::text and r.scope = :'scope'::text
  and r.key = :'key'::text
left join latchkey.leases l on l.tenant = r.tenant and l.scope = r.scope and l.key = r.key
  and l.record_id = r.id and l.token = r.token;
