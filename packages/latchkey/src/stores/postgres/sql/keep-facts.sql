-- The lock keeps a record from changing until its facts are written. A record that another transaction has locked is
-- skipped, because waiting for it would block all transactions that need one of the other records. Facts are written in the
-- order of their keys, so that two statements never wait for each other.
-- The first ten and the last twenty: `firstFactsMax` and `lastFactsMax`.
with t as materialized (select pg_catalog.clock_timestamp() as at),
given as materialized (
  select g.*
  from pg_catalog.jsonb_to_recordset(:'groups'::text::jsonb) g ( tenant text collate "C",
      scope text collate "C", key text collate "C", kind text collate "C", record_id uuid, count int,
      facts jsonb)),
found as materialized (
  select g.*, r.id
  from given g
  cross join lateral (
    select r.id
    from latchkey.records r
    where r.tenant = g.tenant and r.scope = g.scope and r.key = g.key
      and r.id = coalesce(g.record_id, r.id)
    limit 1
    for key share skip locked) r
  order by g.tenant, g.scope, g.key, g.kind),
stamped as materialized (
  select f.tenant, f.scope, f.key, f.kind, f.id, f.count,
    (
      select pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object( 'at',
          pg_catalog.floor(extract(epoch from t.at) * 1000 - x.ago_ms)::bigint, 'what', x.what, 'because', x.because,
          'trace_id', x.trace_id)
        order by x.n)
      from pg_catalog.jsonb_to_recordset(f.facts) x
        (n int, ago_ms float8, what text, because text, trace_id text)) as facts
  from found f, t),
kept as (
  insert into latchkey.facts as k (tenant, scope, key, kind, record_id, count, facts)
  select s.tenant, s.scope, s.key, s.kind, s.id, s.count, s.facts
  from stamped s
  order by s.tenant, s.scope, s.key,
    s.kind
  on conflict (tenant, scope, key, kind) do update set record_id = excluded.record_id,
    count = case when k.record_id = excluded.record_id then k.count else 0 end + excluded.count,
    facts = case when k.record_id = excluded.record_id then (select
        pg_catalog.jsonb_agg(e.value order by e.place)
      from pg_catalog.jsonb_array_elements(k.facts || excluded.facts) with ordinality e (value, place)
      where e.place <= 10 or e.place > pg_catalog.jsonb_array_length(k.facts) + pg_catalog.jsonb_array_length(excluded.facts) - 20) else
    excluded.facts end
  returning 1)
select pg_catalog.count(*)::int as kept,
  (select case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
      pg_catalog.set_config('client_min_messages', 'warning', true) end) as commit_messages/*[synced*/,
  (select case when pg_catalog.current_setting('synchronous_commit') = 'off' then
      pg_catalog.set_config('synchronous_commit', 'on', true) end) as commit_synced/*]*/
from kept;
