with m as (
  delete from latchkey.messages m
  where m.digest = pg_catalog.decode(:'digest'::text, 'hex') and m.state = 'watched'
  returning 1)
select pg_catalog.count(*)::int as forgotten,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from m;
