with t as materialized (select pg_catalog.clock_timestamp() as at),
m as (
  insert into latchkey.messages as m (digest, id, source, operation, tenant, key, state, starts, returns,
      failures, last_error_code, created_at, expires_at)
  select pg_catalog.decode(:'digest'::text, 'hex'), :'id'::uuid, :'source'::text, :'operation'::text,
    :'tenant'::text, :'key'::text, 'watched', :'starts'::int, :'returns'::int, :'failures'::int,
    :'error_code'::text, t.at, t.at + :'keep_ms'::float8 * interval '1 millisecond'
  from t
  on conflict (digest) do update set starts = m.starts + excluded.starts,
    returns = m.returns + excluded.returns, failures = m.failures + excluded.failures,
    last_error_code = coalesce(excluded.last_error_code, m.last_error_code),
    expires_at = case when m.state = 'watched' then excluded.expires_at end
  returning m.*)
select m.state, m.starts, m.returns, m.failures, m.last_error_code,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from m;
