-- As `look`, with a row for each key in their order. Not a join, because it would be planned for the few rows that the table
-- had at first.
select pg_catalog.encode(pg_catalog.timestamptz_send(t.at), 'hex') as now, t.standby, t.standbys,
  (select pg_catalog.encode(pg_catalog.record_send(r), 'hex') as record
    from latchkey.records r
    where r.tenant = k.tenant and r.scope = k.scope and r.key = k.key) as record
from (select pg_catalog.clock_timestamp() as at, pg_catalog.pg_is_in_recovery() as standby,
    /*[synced*/pg_catalog.current_setting('synchronous_standby_names') <> ''/*|false]*/ as standbys offset 0) t,
  unnest(:'tenants'::text::text[], :'scopes'::text::text[], :'keys'::text::text[]) with ordinality k(tenant, scope, key, place)
order by k.place;
