-- Of the record that `r` has moved.
with t as materialized (select pg_catalog.clock_timestamp() as at),
r as (
  update latchkey.records r
  set state = :'state'::text, answer = :'answer'::bytea, response_schema_version = 1,
    last_error_code = :'error_code'::text, input = null, reconcile_after = null, finished_at = t.at,
    expires_at = t.at + :'retention_ms'::float8 * interval '1 millisecond',
    forget_at = t.at + :'forget_after_ms'::float8 * interval '1 millisecond'
  from t
  where r.tenant = :'tenant'::text and r.scope = :'scope'::text and r.key = :'key'::text
    and r.id = :'guard_id'::uuid and r.state = :'guard_state'::text and r.attempt = :'guard_attempt'::int
    and r.token = :'guard_token'::uuid and r.state = 'unknown'
  returning r.id),
note as (
  insert into latchkey.audit
    (id, at, tenant, scope, key, record_id, event, from_state, to_state, actor, proof, reason)
  select :'audit_id'::uuid, t.at, :'tenant'::text, :'scope'::text, :'key'::text, r.id, :'event'::text,
    'unknown', :'state'::text, :'actor'::text, :'proof'::text, :'reason'::text
  from r, t
  returning 1)
select 1 as settled,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from r;
