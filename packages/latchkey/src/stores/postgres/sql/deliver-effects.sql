-- The most frequent case of `end`, for a third less: lists with values of one kind, and nothing to choose. A result that is
-- missing is `-`, others have `=` before them.
-- The column `claimed_at` means the same as `state = 'claimed'`, but keeps the planner on the primary key: the index of
-- claimed rows may be full of dead ones. A plain `is not null` would not: where the statistics are of a moment without
-- claims, the planner expects no row and reads the whole table for each end.
with t as materialized (select pg_catalog.clock_timestamp() as at),
o as (
  update latchkey.outbox o
  set state = 'delivered', ended = 'deliver', claimed_at = null, locked_until = null, started_at = null,
    result = coalesce(pg_catalog.decode(case when c.result <> '-' then pg_catalog.substr(c.result, 2) end, 'hex'), o.result),
    returns = o.returns + (o.result is null and o.started_at is not null)::int, finished_at = t.at,
    expires_at = t.at + c.keep_ms * interval '1 millisecond'
  from unnest(:'ids'::text::uuid[], :'attempts'::text::int[], :'tokens'::text::uuid[],
      :'results'::text::text[], :'keeps_ms'::text::float8[]) as c(id, attempt, token, result, keep_ms), t
  where o.id = c.id and o.attempt = c.attempt and o.token = c.token
    and coalesce(o.claimed_at, '-infinity') > '-infinity'
  returning o.id)
select o.id::text as id,
  (select case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
      pg_catalog.set_config('client_min_messages', 'warning', true) end) as commit_messages/*[synced*/,
  (select case when pg_catalog.current_setting('synchronous_commit') = 'off' then
      pg_catalog.set_config('synchronous_commit', 'on', true) end) as commit_synced/*]*/
from o;
