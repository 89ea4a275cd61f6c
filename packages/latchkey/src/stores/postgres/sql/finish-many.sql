-- As `finish`, with a row for each attempt that ended; waits for locks as `create_many`.
-- `between` lets the server expect few rows, so that it finds them by their keys, also in tables that were small when it planned.
with t as materialized (select pg_catalog.clock_timestamp() as at,
  pg_catalog.set_config('lock_timeout', '100ms', true) as lock_timeout),
k as materialized (select x.*, t.at
  from t cross join pg_catalog.json_to_recordset(:'rows'::text::json) x(place int, tenant text, scope text, key text,
    id uuid, attempt int, token uuid, state text, answer text, error_code text, retention_ms float8,
    forget_after_ms float8)
  where x.place between 0 and 100
  order by x.tenant collate "C", x.scope collate "C", x.key collate "C", x.place),
gone as (delete from latchkey.leases l
  using k
  where l.tenant = k.tenant and l.scope = k.scope and l.key = k.key
    and l.record_id = k.id and l.attempt = k.attempt and l.token = k.token
  returning 1),
r as (
  update latchkey.records r
  set state = k.state, answer = pg_catalog.decode(k.answer, 'base64'), response_schema_version = 1,
    last_error_code = k.error_code, input = null, finished_at = k.at,
    expires_at = k.at + k.retention_ms * interval '1 millisecond',
    forget_at = k.at + k.forget_after_ms * interval '1 millisecond'
  from k
  where r.tenant = k.tenant and r.scope = k.scope and r.key = k.key
    and r.id = k.id and r.state = 'in_progress' and r.attempt = k.attempt
    and r.token = k.token and (select pg_catalog.count(*) from gone) is not null
  returning k.place, r.id, r.expires_at)
select r.place, r.id::text as id, pg_catalog.encode(pg_catalog.timestamptz_send(r.expires_at), 'hex') as expires_at,
  (select case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
    pg_catalog.set_config('client_min_messages', 'warning', true) end) as commit_messages/*[synced*/,
  (select case when pg_catalog.current_setting('synchronous_commit') = 'off' then
    pg_catalog.set_config('synchronous_commit', 'on', true) end) as commit_synced/*]*/
from r;
