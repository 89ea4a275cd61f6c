-- Without an attempt the decision is about the first death: no earlier one may have been decided.
with t as materialized (select pg_catalog.clock_timestamp() as at),
o as (
  update latchkey.outbox o
  set state = case when :'event'::text = 'redrive' then 'pending' else 'delivered' end,
    available_at = case when :'event'::text = 'redrive' then t.at else o.available_at end,
    sends = case when :'event'::text = 'redrive' then 0 else o.sends end,
    returns = case when :'event'::text = 'redrive' then 0 else o.returns end,
    doubtful_since = case when not :'cleared'::boolean then o.doubtful_since end,
    finished_at = case when :'event'::text = 'redrive' then null else t.at end,
    expires_at = case when :'event'::text = 'redrive' then null else t.at + :'keep_ms'::float8 * interval
    '1 millisecond' end
  from t
  where o.id = :'id'::uuid and o.state = 'dead'
    and case when :'attempt'::int is not null then o.attempt = :'attempt'::int else not exists (
      select 1
      from latchkey.audit d
      where d.tenant = o.tenant and d.scope = o.scope and d.key = o.key and d.effect_id = o.id
        and d.from_state = 'dead') end
    and not exists (select 1 from latchkey.audit a where a.id = :'audit_id'::uuid)
  returning o.*),
note as (
  insert into latchkey.audit
    (id, at, tenant, scope, key, record_id, event, from_state, to_state, actor, proof, reason, effect_id)
  select :'audit_id'::uuid, t.at, o.tenant, o.scope, o.key, o.record_id, :'event'::text, 'dead', o.state,
    :'actor'::text, 'operator', :'reason'::text, o.id
  from o, t
  returning 1)
select 1 as decided,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from o;
