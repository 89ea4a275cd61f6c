with t as materialized (select pg_catalog.clock_timestamp() as at),
m as (
  insert into latchkey.messages as m (digest, id, source, operation, tenant, key, state, starts, returns,
      failures, reason, content_type, payload, created_at, died_at)
  select pg_catalog.decode(:'digest'::text, 'hex'), :'id'::uuid, :'source'::text, :'operation'::text,
    :'tenant'::text, :'key'::text, 'dead', 0, 0, 0, :'reason'::text, :'content_type'::text, :'payload'::bytea,
    t.at, t.at
  from t
  on conflict (digest) do update set state = 'dead', id = excluded.id, reason = excluded.reason,
    content_type = excluded.content_type, payload = excluded.payload, died_at = excluded.died_at,
    expires_at = null
  where m.state = 'watched'
  returning 1)
select pg_catalog.count(*)::int as buried,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from m;
