-- `read` without the lease. The sub-select costs half as much as a join; the second table would cost as much again.
select pg_catalog.encode(pg_catalog.timestamptz_send(pg_catalog.clock_timestamp()), 'hex') as now,
  pg_catalog.pg_is_in_recovery() as standby,
  /*[synced*/pg_catalog.current_setting('synchronous_standby_names') <> ''/*|false]*/ as standbys,
  (select pg_catalog.encode(pg_catalog.record_send(r), 'hex') as record
    from latchkey.records r
    where r.tenant = :'tenant'::text and r.scope = :'scope'::text and r.key = :'key'::text) as record;
