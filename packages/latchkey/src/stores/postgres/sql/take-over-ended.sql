-- Locks the lease, then the record, and waits for neither.
-- The lease row of the guarded attempt, locked, if its time is over. A transaction that holds the lock is changing the
-- record.
-- An attempt without any lease row has no lease that could still run.
-- `l` writes the lease, for the row that `r` has written.
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
    and r.fingerprint_version = :'fingerprint_version'::smallint and r.fingerprint = :'fingerprint'::bytea
    and (exists (select 1 from lease)
        or not exists (select 1
          from latchkey.leases x
          where x.tenant = :'tenant'::text and x.scope = :'scope'::text and x.key = :'key'::text
            and x.record_id = :'guard_id'::uuid and x.attempt = :'guard_attempt'::int
            and x.token = :'guard_token'::uuid))
  for update skip locked),
r as (
  update latchkey.records r
  set state = 'in_progress', attempt = r.attempt + 1, token = :'token'::uuid,
    expires_at = r.created_at + :'expires_after_ms'::float8 * interval '1 millisecond',
    last_error_code = null, reconcile_after = null
  where r.ctid = any (array(select row_id from free)) and r.tenant = :'tenant'::text
    and r.scope = :'scope'::text and r.key = :'key'::text and r.id = :'guard_id'::uuid
    and r.state = :'guard_state'::text and r.attempt = :'guard_attempt'::int
    and r.token = :'guard_token'::uuid
  returning r.*),
l as (insert into latchkey.leases (tenant, scope, key, record_id, operation, attempt, token, locked_until,
    lease_end, attempts_max, abandon_at)
  select :'tenant'::text, :'scope'::text, :'key'::text, :'id'::uuid, r.operation, r.attempt, :'token'::uuid,
    t.at + :'lease_ms'::float8 * interval '1 millisecond', :'lease_end'::text, :'attempts_max'::int,
    r.expires_at
  from r, t
  on conflict (tenant, scope, key) do update set record_id = excluded.record_id,
    operation = excluded.operation, attempt = excluded.attempt, token = excluded.token,
    locked_until = excluded.locked_until, lease_end = excluded.lease_end,
    attempts_max = excluded.attempts_max, abandon_at = excluded.abandon_at
  returning locked_until)
select r.operation, r.principal, r.attempt, r.trace,
  pg_catalog.encode(pg_catalog.timestamptz_send(r.created_at), 'hex') as created_at,
  pg_catalog.encode(pg_catalog.timestamptz_send(r.expires_at), 'hex') as expires_at,
  pg_catalog.encode(pg_catalog.timestamptz_send(l.locked_until), 'hex') as lease_ends_at,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from r, l;
