-- The record, locked before its steps are touched.
-- The error that led to the doubt stays visible until the life goes on.
-- Of the record that `r` has moved.
with t as materialized (select pg_catalog.clock_timestamp() as at),
free as materialized (
  select r.id
  from latchkey.records r
  where r.tenant = :'tenant'::text and r.scope = :'scope'::text and r.key = :'key'::text
    and r.id = :'guard_id'::uuid and r.state = :'guard_state'::text and r.attempt = :'guard_attempt'::int
    and r.token = :'guard_token'::uuid and r.state = 'unknown' for update),
s as (
  update latchkey.steps s
  set state = 'finished', result = :'result'::bytea, finished_at = t.at
  from free, t
  where s.record_id = free.id and s.name = :'call'::text and s.kind = 'call'
    and s.generation = :'generation'::int and s.state = 'started'
  returning s.name),
r as (
  update latchkey.records r
  set state = 'retryable', reconcile_after = t.at + :'resume_after_ms'::float8 * interval '1 millisecond',
    recovery_point = :'call'::text
  from t
  where r.id = (select id from free) and r.tenant = :'tenant'::text and r.scope = :'scope'::text
    and r.key = :'key'::text and r.id = :'guard_id'::uuid and r.state = :'guard_state'::text
    and r.attempt = :'guard_attempt'::int and r.token = :'guard_token'::uuid and r.state = 'unknown'
    and exists (select 1 from s)
  returning r.id),
note as (
  insert into latchkey.audit
    (id, at, tenant, scope, key, record_id, event, from_state, to_state, actor, proof, reason)
  select :'audit_id'::uuid, t.at, :'tenant'::text, :'scope'::text, :'key'::text, r.id, :'event'::text,
    'unknown', 'retryable', :'actor'::text, :'proof'::text, :'reason'::text
  from r, t
  returning 1)
select 1 as settled,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from r;
