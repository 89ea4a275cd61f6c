-- Ends an attempt under a lease. A transaction inserts its finished record with `complete`.
-- Deletes the owner's lease before its record is touched: all statements lock the two in this order.
with t as materialized (select pg_catalog.clock_timestamp() as at),
gone as (delete from latchkey.leases l
  where l.tenant = :'tenant'::text and l.scope = :'scope'::text and l.key = :'key'::text
    and l.record_id = :'id'::uuid and l.attempt = :'attempt'::int and l.token = :'token'::uuid
  returning 1),
r as (
  update latchkey.records r
  set state = :'state'::text, answer = :'answer'::bytea, response_schema_version = 1,
    last_error_code = :'error_code'::text, input = null, finished_at = t.at,
    expires_at = t.at + :'retention_ms'::float8 * interval '1 millisecond',
    forget_at = t.at + :'forget_after_ms'::float8 * interval '1 millisecond'
  from t
  where r.tenant = :'tenant'::text and r.scope = :'scope'::text and r.key = :'key'::text
    and r.id = :'id'::uuid and r.state = 'in_progress' and r.attempt = :'attempt'::int
    and r.token = :'token'::uuid and (select pg_catalog.count(*) from gone) is not null
  returning r.expires_at)
select pg_catalog.encode(pg_catalog.timestamptz_send(r.expires_at), 'hex') as expires_at,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from r;
