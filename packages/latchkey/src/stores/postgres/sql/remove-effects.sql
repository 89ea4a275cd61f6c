-- Deliveries of which nothing is kept: a DELETE makes no new version of the row and no entry in an index.
-- `coalesce` as in `deliver-effects.sql`.
with o as (
  delete from latchkey.outbox o
  using unnest(:'ids'::text::uuid[], :'attempts'::text::int[], :'tokens'::text::uuid[]) as c(id, attempt, token)
  where o.id = c.id and o.attempt = c.attempt and o.token = c.token
    and coalesce(o.claimed_at, '-infinity') > '-infinity'
  returning o.id)
select o.id::text as id,
  (select case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
      pg_catalog.set_config('client_min_messages', 'warning', true) end) as commit_messages/*[synced*/,
  (select case when pg_catalog.current_setting('synchronous_commit') = 'off' then
      pg_catalog.set_config('synchronous_commit', 'on', true) end) as commit_synced/*]*/
from o;
