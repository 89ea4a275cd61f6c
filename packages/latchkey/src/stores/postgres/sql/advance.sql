-- Moves the owner's record. It is written as an INSERT that always conflicts: an UPDATE would search for the row,
-- and at SERIALIZABLE phases of different keys would then fail each other. If the record is gone, the row is
-- inserted, with an attempt that no owner has, and the statement raises.
-- Raises 22012 when the record was not moved, because in a pipeline with COMMIT only an error stops the COMMIT.
with t as materialized (select case when
    pg_catalog.encode(pg_catalog.timestamptz_send(pg_catalog.now()), 'hex') = :'began'::text then
    pg_catalog.clock_timestamp() else
    pg_catalog.to_timestamp(pg_catalog.sqrt(- pg_catalog.date_part('epoch', pg_catalog.now()))) end as at),
r as (
  insert into latchkey.records as r (tenant, scope, key, id, operation, state, fingerprint_version,
      fingerprint, attempt, token, created_at, finished_at, forget_at, recovery_point)
  select :'tenant'::text, :'scope'::text, :'key'::text, :'id'::uuid, '', 'expired', 0, '', 0, :'token'::uuid,
    t.at, t.at, t.at, :'name'::text
  from t
  on conflict (tenant, scope, key) do update set recovery_point = excluded.recovery_point
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
  returning 1)
select 1 / (pg_catalog.count(*) filter (where r.attempt > 0))::int as written,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from r;
