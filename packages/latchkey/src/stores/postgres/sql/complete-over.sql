-- Overwrites the row that was decided on. Raises 22012 otherwise, because no smaller failure would stop the COMMIT; also if
-- that row is gone, because its life may have ended and been forgotten: the upsert has then inserted an attempt number
-- that no attempt has.
-- Writes a whole life at once: inserts it, or overwrites exactly the row that was decided on.
-- The time. Raises 2201F when this is not the transaction that admission opened: in a statement that is pipelined with
-- COMMIT only an error stops the COMMIT. The condition and the root depend on the transaction, so that
-- the planner evaluates neither beforehand.
-- Deletes the steps of the life that `w` has replaced, if it was another.
-- A transaction may also complete, or lose, the next run of the same life that waited for it.
with t as materialized (select case when
    pg_catalog.encode(pg_catalog.timestamptz_send(pg_catalog.now()), 'hex') = :'began'::text then
    pg_catalog.clock_timestamp() else
    pg_catalog.to_timestamp(pg_catalog.sqrt(- pg_catalog.date_part('epoch', pg_catalog.now()))) end as at),
w as (insert into latchkey.records as r (tenant, scope, key, created_at, recovery_point, reconcile_tries,
    addressable, id, operation, fingerprint_version, fingerprint, principal, attempt, token, summary, trace,
    state, answer, response_schema_version, finished_at, expires_at, forget_at, last_error_code)
  select :'tenant'::text, :'scope'::text, :'key'::text, t.at, null, 0, false, :'id'::uuid, :'operation'::text,
    :'fingerprint_version'::smallint, :'fingerprint'::bytea, :'principal'::text, 0, :'token'::uuid,
    :'summary'::bytea, /*[traced*/:'trace'::text/*|null]*/, 'completed', :'answer'::bytea, 1, t.at,
    t.at + :'retention_ms'::float8 * interval '1 millisecond',
    t.at + :'forget_after_ms'::float8 * interval '1 millisecond', null
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
    answer = excluded.answer, response_schema_version = excluded.response_schema_version,
    finished_at = excluded.finished_at, expires_at = excluded.expires_at, forget_at = excluded.forget_at,
    last_error_code = excluded.last_error_code, input = null, reconcile_after = null
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
select 1 / (pg_catalog.count(*) filter (where w.attempt > 0))::int as written,
  pg_catalog.encode(pg_catalog.timestamptz_send(pg_catalog.max(w.expires_at)), 'hex') as expires_at,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from w;
