-- The guard still holds after the write, so a repetition is recognised by its audit row. A call that had to wait for another
-- compares with the current time: by the time when it began, the wait that the other call has just ended would still run.
-- timestamptz(3): rounded as the columns are.
with t as materialized (select pg_catalog.clock_timestamp() as at),
r as (
  update latchkey.records r
  set expires_at = case when r.state in ('completed', 'failed') then t.at else r.expires_at end,
    forget_at = case when r.state in ('completed', 'failed', 'expired') then t.at else r.forget_at end,
    reconcile_after = case when r.state in ('retryable', 'unknown') then t.at else r.reconcile_after end
  from t
  where r.tenant = :'tenant'::text and r.scope = :'scope'::text and r.key = :'key'::text
    and r.id = :'guard_id'::uuid and r.state = :'guard_state'::text and r.attempt = :'guard_attempt'::int
    and r.token = :'guard_token'::uuid
    and (r.state in ('completed', 'failed', 'expired')
        and r.forget_at > pg_catalog.clock_timestamp()::timestamptz(3) or r.state in ('retryable', 'unknown')
        and coalesce(r.reconcile_after > pg_catalog.clock_timestamp()::timestamptz(3), true))
    and not exists (select 1 from latchkey.audit a where a.id = :'audit_id'::uuid)
  returning r.id, r.state),
note as (
  insert into latchkey.audit
    (id, at, tenant, scope, key, record_id, event, from_state, to_state, actor, proof, reason)
  select :'audit_id'::uuid, t.at, :'tenant'::text, :'scope'::text, :'key'::text, r.id,
    case when r.state in ('retryable', 'unknown') then 'retry' else 'forget' end, r.state, r.state,
    :'actor'::text, :'proof'::text, :'reason'::text
  from r, t
  returning 1)
select 1 as hastened,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from r;
