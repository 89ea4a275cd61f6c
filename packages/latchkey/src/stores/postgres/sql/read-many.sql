-- As `read`, with a row for each key in their order, which repeats the key. A large record is left out, and must be read by
-- itself. `limit` keeps the sub-select from becoming a join, which would be planned for the few rows that the table had at first.
select k.place, k.tenant, k.scope, k.key,
  pg_catalog.encode(pg_catalog.timestamptz_send(t.at), 'hex') as now, t.standby, t.standbys,
  f.record, coalesce(f.large, false) as large, f.lease_ends_at
from (select pg_catalog.clock_timestamp() as at, pg_catalog.pg_is_in_recovery() as standby,
    /*[synced*/pg_catalog.current_setting('synchronous_standby_names') <> ''/*|false]*/ as standbys offset 0) t
cross join pg_catalog.json_to_recordset(:'keys'::text::json) k(place int, tenant text, scope text, key text)
left join lateral (
  select s.large, case when not s.large then pg_catalog.encode(pg_catalog.record_send(r), 'hex') end as record,
    case when r.state = 'in_progress' then (
      select pg_catalog.encode(pg_catalog.timestamptz_send(l.locked_until), 'hex')
      from latchkey.leases l
      where l.tenant = r.tenant and l.scope = r.scope and l.key = r.key
        and l.record_id = r.id and l.token = r.token) end as lease_ends_at
  from latchkey.records r
  cross join lateral (select coalesce(pg_catalog.octet_length(r.answer), 0)
      + coalesce(pg_catalog.octet_length(r.input), 0) > 16384 as large) s
  where r.tenant = k.tenant and r.scope = k.scope and r.key = k.key
  limit 1) f on true
order by k.place;
