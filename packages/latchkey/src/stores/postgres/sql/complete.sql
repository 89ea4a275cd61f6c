-- Inserts the row. If there is one after all, this raises 23505, at half the cost of an upsert that does nothing.
-- The time. Raises 2201F when this is not the transaction that admission opened: in a statement that is pipelined with
-- COMMIT only an error stops the COMMIT. The condition and the root depend on the transaction, so that
-- the planner evaluates neither beforehand.
insert into latchkey.records (tenant, scope, key, created_at, id, operation, fingerprint_version, fingerprint,
    principal, attempt, token, summary/*[traced*/, trace/*]*/, state, answer, response_schema_version, finished_at,
    expires_at, forget_at)
select :'tenant'::text, :'scope'::text, :'key'::text, t.at, :'id'::uuid, :'operation'::text,
  :'fingerprint_version'::smallint, :'fingerprint'::bytea, :'principal'::text, :'attempt'::int,
  :'token'::uuid, :'summary'::bytea/*[traced*/, :'trace'::text/*]*/, 'completed', :'answer'::bytea, 1, t.at,
  t.at + :'retention_ms'::float8 * interval '1 millisecond',
  t.at + :'forget_after_ms'::float8 * interval '1 millisecond'
from (select case when pg_catalog.encode(pg_catalog.timestamptz_send(pg_catalog.now()), 'hex') =
    :'began'::text then pg_catalog.clock_timestamp() else
    pg_catalog.to_timestamp(pg_catalog.sqrt(- pg_catalog.date_part('epoch', pg_catalog.now()))) end as at
    offset 0) t
returning pg_catalog.encode(pg_catalog.timestamptz_send(expires_at), 'hex') as expires_at,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/;
