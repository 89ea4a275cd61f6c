-- `retryable` or `unknown`: the attempt is over, the life is not.
-- Deletes the owner's lease before its record is touched: all statements lock the two in this order.
with t as materialized (select pg_catalog.clock_timestamp() as at),
gone as (delete from latchkey.leases l
  where l.tenant = :'tenant'::text and l.scope = :'scope'::text and l.key = :'key'::text
    and l.record_id = :'id'::uuid and l.attempt = :'attempt'::int and l.token = :'token'::uuid
  returning 1),
r as (
  update latchkey.records r
  set state = :'state'::text, last_error_code = :'error_code'::text, expires_at = null,
    reconcile_after = t.at + :'reconcile_after_ms'::float8 * interval '1 millisecond'
  from t
  where r.tenant = :'tenant'::text and r.scope = :'scope'::text and r.key = :'key'::text
    and r.id = :'id'::uuid and r.state = 'in_progress' and r.attempt = :'attempt'::int
    and r.token = :'token'::uuid and (select pg_catalog.count(*) from gone) is not null
  returning 1)
select 1 as parked,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from r;
