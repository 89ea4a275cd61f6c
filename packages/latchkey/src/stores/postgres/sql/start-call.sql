-- One of the two SETs that change something always applies to the current row, because a repetition that had to wait for
-- its first try has a snapshot from before it.
-- The owner's record, locked, so that it cannot be taken over before its step is written.
-- A step as `stepOf` reads it, from `s`.
with t as materialized (select pg_catalog.clock_timestamp() as at),
own as materialized (
  select r.id
  from latchkey.records r
  where r.tenant = :'tenant'::text and r.scope = :'scope'::text and r.key = :'key'::text
    and r.id = :'id'::uuid and r.state = 'in_progress' and r.attempt = :'attempt'::int
    and r.token = :'token'::uuid for update),
s as (
  insert into latchkey.steps as s (record_id, name, tenant, scope, key, position, version, kind, state,
      effect, generation, downstream_key, input, sends, started_at)
  select own.id, :'name'::text, :'tenant'::text, :'scope'::text, :'key'::text, :'position'::int,
    :'version'::text, 'call', 'started', :'effect'::text, :'generation'::int, :'downstream_key'::text,
    :'step_input'::bytea, 1, t.at
  from own, t
  on conflict (record_id, name) do update set state = case when s.kind = 'call'
    and s.generation = excluded.generation
    and s.state in ('started', 'not_executed') then 'started' else s.state end,
    sends = case when s.kind = 'call' and s.generation = excluded.generation
    and s.state in ('started', 'not_executed') then s.sends + 1 else s.sends end,
    started_at = case when s.kind = 'call' and s.generation = excluded.generation
    and s.state in ('started', 'not_executed')
    and s.state = 'not_executed' then excluded.started_at else s.started_at end
  returning s.*)
select s.name as step, s.position, s.version, s.kind, s.state as step_state, s.effect, s.generation,
  s.downstream_key, pg_catalog.encode(s.input, 'hex') as step_input,
  pg_catalog.encode(s.result, 'hex') as result, s.sends,
  pg_catalog.encode(pg_catalog.timestamptz_send(s.started_at), 'hex') as started_at,
  pg_catalog.encode(pg_catalog.timestamptz_send(s.finished_at), 'hex') as finished_at,
  pg_catalog.encode(pg_catalog.timestamptz_send(t.at), 'hex') as now,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from s, t;
