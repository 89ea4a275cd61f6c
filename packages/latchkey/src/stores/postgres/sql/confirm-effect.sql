-- An effect that is being sent goes on under its claim. Its return is counted here, because its own end will find a result.
with t as materialized (select pg_catalog.clock_timestamp() as at),
was as materialized (
  select o.id, case when o.started_at is not null then 'started' else o.state end as state
  from latchkey.outbox o
  where o.id = :'id'::uuid and o.generation = :'generation'::int and o.state <> 'delivered'
    and o.result is null
    and not exists (select 1 from latchkey.audit a where a.id = :'audit_id'::uuid) for update),
o as (
  update latchkey.outbox o
  set result = pg_catalog.decode(:'result'::text, 'hex'),
    state = case when o.started_at is not null then o.state else 'pending' end,
    available_at = case when o.started_at is not null then o.available_at else t.at end,
    claimed_at = case when o.started_at is not null then o.claimed_at end,
    locked_until = case when o.started_at is not null then o.locked_until end,
    sends = case when o.state = 'dead' then 0 else o.sends end,
    returns = case when o.state = 'dead' then 0 else o.returns end + (o.started_at is not null)::int,
    finished_at = null
  from was, t
  where o.id = was.id
  returning o.*),
note as (
  insert into latchkey.audit
    (id, at, tenant, scope, key, record_id, event, from_state, to_state, actor, proof, reason, effect_id)
  select :'audit_id'::uuid, t.at, o.tenant, o.scope, o.key, o.record_id, 'confirm', was.state,
    case when o.started_at is not null then 'started' else o.state end, :'actor'::text, :'proof'::text,
    :'reason'::text, o.id
  from o, was, t
  returning 1)
select 1 as confirmed,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from o;
