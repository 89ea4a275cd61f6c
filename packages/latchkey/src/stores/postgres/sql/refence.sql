-- Locks the lease, then the record; the only statement that waits for a phase that has already written both. A token that is
-- already the new one comes from an earlier try.
with t as materialized (select pg_catalog.clock_timestamp() as at),
l as (
  update latchkey.leases l
  set token = :'new_token'::uuid, locked_until = t.at + :'lease_ms'::float8 * interval '1 millisecond'
  from t
  where l.tenant = :'tenant'::text and l.scope = :'scope'::text and l.key = :'key'::text
    and l.record_id = :'id'::uuid and l.attempt = :'attempt'::int
    and l.token in (:'token'::uuid, :'new_token'::uuid)
  returning 1),
r as (
  update latchkey.records r
  set token = :'new_token'::uuid
  from l
  where r.tenant = :'tenant'::text and r.scope = :'scope'::text and r.key = :'key'::text
    and r.id = :'id'::uuid and r.state = 'in_progress' and r.attempt = :'attempt'::int
    and r.token in (:'token'::uuid, :'new_token'::uuid)
  returning 1)
select 1 as refenced,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from r;
