-- Inserts the row if there is none, or overwrites exactly the row that was decided on.
-- `l` writes the lease, for the row that `r` has written.
-- Deletes the steps of the life before.
with t as materialized (select pg_catalog.clock_timestamp() as at),
r as (update latchkey.records r
  set id = :'id'::uuid, operation = :'operation'::text, state = 'in_progress',
    fingerprint_version = :'fingerprint_version'::smallint, fingerprint = :'fingerprint'::bytea,
    principal = :'principal'::text, attempt = :'attempt'::int, token = :'token'::uuid, recovery_point = null,
    input = :'input'::bytea, addressable = :'addressable'::boolean, summary = :'summary'::bytea,
    trace = /*[traced*/:'trace'::text/*|null]*/, answer = null, response_schema_version = null, last_error_code = null,
    reconcile_tries = 0, created_at = t.at, finished_at = null,
    expires_at = t.at + :'expires_after_ms'::float8 * interval '1 millisecond', forget_at = null,
    reconcile_after = null
  from t
  where r.tenant = :'tenant'::text and r.scope = :'scope'::text and r.key = :'key'::text
    and r.id = :'guard_id'::uuid and r.state = :'guard_state'::text and r.attempt = :'guard_attempt'::int
    and r.token = :'guard_token'::uuid
    and (r.state = 'expired' or (r.state in ('completed', 'failed') and r.expires_at <= (select at from t)))
  returning r.created_at, r.expires_at),
l as (insert into latchkey.leases (tenant, scope, key, record_id, operation, attempt, token, locked_until,
    lease_end, attempts_max, abandon_at)
  select :'tenant'::text, :'scope'::text, :'key'::text, :'id'::uuid, :'operation'::text, :'attempt'::int,
    :'token'::uuid, t.at + :'lease_ms'::float8 * interval '1 millisecond', :'lease_end'::text,
    :'attempts_max'::int, r.expires_at
  from r, t
  on conflict (tenant, scope, key) do update set record_id = excluded.record_id,
    operation = excluded.operation, attempt = excluded.attempt, token = excluded.token,
    locked_until = excluded.locked_until, lease_end = excluded.lease_end,
    attempts_max = excluded.attempts_max, abandon_at = excluded.abandon_at
  returning locked_until),
gone as (delete from latchkey.steps s
  where s.record_id = :'guard_id'::uuid and exists (select 1 from r)
  returning 1)
select pg_catalog.encode(pg_catalog.timestamptz_send(r.created_at), 'hex') as created_at,
  pg_catalog.encode(pg_catalog.timestamptz_send(r.expires_at), 'hex') as expires_at,
  pg_catalog.encode(pg_catalog.timestamptz_send(l.locked_until), 'hex') as lease_ends_at,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from r , l;
