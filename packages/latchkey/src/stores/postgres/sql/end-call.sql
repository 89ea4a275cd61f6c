-- The owner's record, locked, so that it cannot be taken over before its step is written.
with t as materialized (select pg_catalog.clock_timestamp() as at),
own as materialized (
  select r.id
  from latchkey.records r
  where r.tenant = :'tenant'::text and r.scope = :'scope'::text and r.key = :'key'::text
    and r.id = :'id'::uuid and r.state = 'in_progress' and r.attempt = :'attempt'::int
    and r.token = :'token'::uuid for update),
s as (
  update latchkey.steps s
  set state = :'state'::text, result = :'result'::bytea,
    finished_at = case when :'state'::text <> 'not_executed' then t.at end
  from own, t
  where s.record_id = own.id and s.name = :'name'::text and s.kind = 'call'
    and s.generation = :'generation'::int and s.state = 'started'
  returning s.name),
r as (
  update latchkey.records r
  set recovery_point = s.name
  from s
  where r.tenant = :'tenant'::text and r.scope = :'scope'::text and r.key = :'key'::text
    and r.id = :'id'::uuid and r.state = 'in_progress' and r.attempt = :'attempt'::int
    and r.token = :'token'::uuid and :'state'::text <> 'not_executed'
  returning 1)
select 1 as ended,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from s;
