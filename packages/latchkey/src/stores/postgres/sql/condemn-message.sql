-- Only if the tally is unchanged since it was read; a consumer that returned in between did not crash.
with t as materialized (select pg_catalog.clock_timestamp() as at),
m as (
  update latchkey.messages m
  set state = 'dead', id = :'id'::uuid, reason = :'reason'::text, content_type = :'content_type'::text,
    payload = :'payload'::bytea, died_at = t.at, expires_at = null
  from t
  where m.digest = pg_catalog.decode(:'digest'::text, 'hex') and m.state = 'watched'
    and m.starts = :'starts'::int and m.returns = :'returns'::int
  returning 1)
select pg_catalog.count(*)::int as buried,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from m;
