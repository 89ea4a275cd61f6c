-- The lease row of the guarded attempt, locked, if its time is over. A transaction that holds the lock is changing the
-- record.
-- An attempt without any lease row has no lease that could still run.
with t as materialized (select pg_catalog.clock_timestamp() as at),
lease as materialized (
  select 1
  from latchkey.leases l
  where l.tenant = :'tenant'::text and l.scope = :'scope'::text and l.key = :'key'::text
    and l.record_id = :'guard_id'::uuid and l.attempt = :'guard_attempt'::int
    and l.token = :'guard_token'::uuid and l.locked_until <= (select at from t)
  for update skip locked),
free as materialized (
  select r.ctid as row_id
  from latchkey.records r
  where r.tenant = :'tenant'::text and r.scope = :'scope'::text and r.key = :'key'::text
    and r.id = :'guard_id'::uuid and r.state = :'guard_state'::text and r.attempt = :'guard_attempt'::int
    and r.token = :'guard_token'::uuid and r.state = 'in_progress'
    and (exists (select 1 from lease)
        or not exists (select 1
          from latchkey.leases x
          where x.tenant = :'tenant'::text and x.scope = :'scope'::text and x.key = :'key'::text
            and x.record_id = :'guard_id'::uuid and x.attempt = :'guard_attempt'::int
            and x.token = :'guard_token'::uuid))
  for update skip locked),
r as (
  update latchkey.records r
  set state = 'unknown', last_error_code = :'error_code'::text, expires_at = null,
    reconcile_after = t.at + :'reconcile_after_ms'::float8 * interval '1 millisecond'
  from t
  where r.ctid = any (array(select row_id from free)) and r.tenant = :'tenant'::text
    and r.scope = :'scope'::text and r.key = :'key'::text and r.id = :'guard_id'::uuid
    and r.state = :'guard_state'::text and r.attempt = :'guard_attempt'::int
    and r.token = :'guard_token'::uuid
  returning 1),
gone as (
  delete from latchkey.leases l
  where l.tenant = :'tenant'::text and l.scope = :'scope'::text and l.key = :'key'::text
    and l.record_id = :'guard_id'::uuid and l.attempt = :'guard_attempt'::int
    and l.token = :'guard_token'::uuid and exists (select 1 from r)
  returning 1)
select 1 as given_up, (select pg_catalog.count(*)::int from gone) as leases,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from r;
