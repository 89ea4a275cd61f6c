with t as materialized (select pg_catalog.clock_timestamp() as at),
r as (
  update latchkey.records r
  set reconcile_after = t.at + :'after_ms'::float8 * interval '1 millisecond'
  from t
  where r.tenant = :'tenant'::text and r.scope = :'scope'::text and r.key = :'key'::text
    and r.id = :'guard_id'::uuid and r.state = :'guard_state'::text and r.attempt = :'guard_attempt'::int
    and r.token = :'guard_token'::uuid and r.state = 'unknown'
  returning 1)
select 1 as postponed,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from r;
