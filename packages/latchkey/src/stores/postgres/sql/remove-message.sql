with t as materialized (select pg_catalog.clock_timestamp() as at),
m as (
  delete from latchkey.messages m
  where m.id = :'id'::uuid and m.state = 'dead'
    and not exists (select 1 from latchkey.audit a where a.id = :'audit_id'::uuid)
  returning m.*),
note as (
  insert into latchkey.audit
    (id, at, tenant, scope, key, record_id, event, from_state, to_state, actor, proof, reason)
  select :'audit_id'::uuid, t.at, coalesce(m.tenant, ''), m.operation, coalesce(m.key, ''), m.id,
    :'event'::text, 'dead', 'none', :'actor'::text, 'operator', :'reason'::text
  from m, t
  returning 1)
select 1 as removed,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from m;
