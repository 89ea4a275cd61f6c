-- Writes a whole life at once: inserts it, or overwrites exactly the row that was decided on.
-- Deletes the steps of the life that `w` has replaced, if it was another.
-- A transaction may also complete, or lose, the next run of the same life that waited for it.
with t as materialized (select pg_catalog.clock_timestamp() as at),
w as (insert into latchkey.records as r (tenant, scope, key, created_at, recovery_point, reconcile_tries,
    addressable, id, operation, fingerprint_version, fingerprint, principal, attempt, token, summary, trace,
    state, last_error_code, input)
  select :'tenant'::text, :'scope'::text, :'key'::text, t.at, null, 0, :'addressable'::boolean, :'id'::uuid,
    :'operation'::text, :'fingerprint_version'::smallint, :'fingerprint'::bytea, :'principal'::text,
    :'attempt'::int, :'token'::uuid, :'summary'::bytea, :'trace'::text, 'unknown', :'error_code'::text,
    :'input'::bytea
  from t
  on conflict (tenant, scope, key) do update set created_at = case when r.id = excluded.id then r.created_at
    else excluded.created_at end,
    recovery_point = case when r.id = excluded.id then r.recovery_point else excluded.recovery_point end,
    reconcile_tries = case when r.id = excluded.id then r.reconcile_tries else excluded.reconcile_tries end,
    addressable = case when r.id = excluded.id then r.addressable else excluded.addressable end,
    id = excluded.id, operation = excluded.operation, fingerprint_version = excluded.fingerprint_version,
    fingerprint = excluded.fingerprint, principal = excluded.principal, attempt = :'attempt'::int,
    token = excluded.token, summary = case when r.id = excluded.id then r.summary else excluded.summary end,
    trace = case when r.id = excluded.id then r.trace else excluded.trace end, state = excluded.state,
    last_error_code = excluded.last_error_code,
    input = case when r.id = excluded.id then r.input else excluded.input end, answer = null,
    response_schema_version = null, finished_at = null, expires_at = null, forget_at = null,
    reconcile_after = null
  where r.id = :'guard_id'::uuid and r.state = :'guard_state'::text and r.attempt = :'guard_attempt'::int
    and r.token = :'guard_token'::uuid
    and ((r.state = 'expired' or (r.state in ('completed', 'failed') and r.expires_at <= (select at from t)))
        or (r.state = 'retryable' and r.id = excluded.id
            and r.fingerprint_version = excluded.fingerprint_version
            and r.fingerprint = excluded.fingerprint))
  returning r.created_at, r.expires_at, r.attempt, r.trace),
gone as (
  delete from latchkey.steps s
  where s.record_id = :'guard_id'::uuid and :'guard_id'::uuid <> :'id'::uuid and exists (select 1 from w)
  returning 1)
select pg_catalog.encode(pg_catalog.timestamptz_send(w.created_at), 'hex') as created_at, w.trace,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from w;
