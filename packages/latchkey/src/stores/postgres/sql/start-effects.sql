-- A claim is started once: a second request repeats a call whose reply was lost.
with t as materialized (select pg_catalog.clock_timestamp() as at),
o as (
  update latchkey.outbox o
  set started_at = t.at, sends = o.sends + 1, doubtful_since = coalesce(o.doubtful_since, t.at),
    locked_until = t.at + :'lease_ms'::float8 * interval '1 millisecond'
  from pg_catalog.jsonb_to_recordset(:'claims'::text::jsonb) as c(id uuid, attempt int, token uuid), t
  where o.id = c.id and o.attempt = c.attempt and o.token = c.token and o.locked_until > t.at
    and o.started_at is null
  returning o.id)
select o.id::text as id,
  (select case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
      pg_catalog.set_config('client_min_messages', 'warning', true) end) as commit_messages/*[synced*/,
  (select case when pg_catalog.current_setting('synchronous_commit') = 'off' then
      pg_catalog.set_config('synchronous_commit', 'on', true) end) as commit_synced/*]*/
from o;
