-- Above READ COMMITTED the lease cannot be deleted here, because heartbeats have changed it since the snapshot was
-- taken. It is deleted right after the COMMIT.
-- Moves the owner's record. It is written as an INSERT that always conflicts: an UPDATE would search for the row,
-- and at SERIALIZABLE phases of different keys would then fail each other. If the record is gone, the row is
-- inserted, with an attempt that no owner has, and the statement raises.
-- Raises 22012 when the record was not moved, because in a pipeline with COMMIT only an error stops the COMMIT.
with t as materialized (select case when
    pg_catalog.encode(pg_catalog.timestamptz_send(pg_catalog.now()), 'hex') = :'began'::text then
    pg_catalog.clock_timestamp() else
    pg_catalog.to_timestamp(pg_catalog.sqrt(- pg_catalog.date_part('epoch', pg_catalog.now()))) end as at),
gone as (
  delete from latchkey.leases l
  where pg_catalog.current_setting('transaction_isolation') = 'read committed' and l.tenant = :'tenant'::text
    and l.scope = :'scope'::text and l.key = :'key'::text and l.record_id = :'id'::uuid
    and l.attempt = :'attempt'::int and l.token = :'token'::uuid
  returning 1),
r as (
  insert into latchkey.records as r (tenant, scope, key, id, operation, state, fingerprint_version,
      fingerprint, attempt, token, created_at, finished_at, forget_at, recovery_point, answer,
      response_schema_version, last_error_code, input, expires_at)
  select :'tenant'::text, :'scope'::text, :'key'::text, :'id'::uuid, '', 'completed', 0, '', 0,
    :'token'::uuid, t.at, t.at, t.at + :'forget_after_ms'::float8 * interval '1 millisecond', :'name'::text,
    :'answer'::bytea, 1, null, null, t.at + :'retention_ms'::float8 * interval '1 millisecond'
  from t
  where (select pg_catalog.count(*) from gone) is not null
  on conflict (tenant, scope, key) do update set recovery_point = excluded.recovery_point,
    state = excluded.state, answer = excluded.answer,
    response_schema_version = excluded.response_schema_version, last_error_code = excluded.last_error_code,
    input = excluded.input, finished_at = excluded.finished_at, expires_at = excluded.expires_at,
    forget_at = excluded.forget_at
  where r.id = :'id'::uuid and r.state = 'in_progress' and r.attempt = :'attempt'::int
    and r.token = :'token'::uuid
  returning r.attempt, r.expires_at, r.operation, r.fingerprint),
s as (
  insert into latchkey.steps
    (record_id, name, tenant, scope, key, position, version, kind, state, result, finished_at)
  select :'id'::uuid, :'name'::text, :'tenant'::text, :'scope'::text, :'key'::text, :'position'::int,
    :'version'::text, 'phase', 'finished', :'result'::bytea, t.at
  from t, r
  where r.attempt > 0
  returning 1) ,
  enqueued as (
    insert into latchkey.outbox (id, aggregatetype, aggregateid, type, payload, tenant, scope, key, record_id,
        fingerprint, step, index, downstream_key, aggregate, ordered, available_at, created_at, trace)
    select e.effect_id, e.effect, coalesce(e.aggregate, e.downstream_key), r.operation,
      pg_catalog.decode(e.input, 'hex'), :'tenant'::text, :'scope'::text, :'key'::text, :'id'::uuid,
      r.fingerprint, e.step, e.index, e.downstream_key, e.aggregate, e.ordered,
      t.at + e.delay_ms * interval '1 millisecond', t.at, e.trace
    from t, r,
      pg_catalog.json_to_recordset(:'effects'::text::json) as e(effect_id uuid, effect text,
          downstream_key text, step text, index int, aggregate text, ordered boolean, input text,
          delay_ms float8, trace text)
    where r.attempt > 0
    order by e.index
    returning 1)
select 1 / (pg_catalog.count(*) filter (where r.attempt > 0))::int as written,
  pg_catalog.encode(pg_catalog.timestamptz_send(pg_catalog.max(r.expires_at)), 'hex') as expires_at,
  (select pg_catalog.count(*)::int from gone) as leases,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from r;
