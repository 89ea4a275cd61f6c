-- Inserts the row. If there is one after all, this raises 23505, at half the cost of an upsert that does nothing.
-- Two checks raise an error, because in a pipeline only an error stops the COMMIT: 2201F if this is not the transaction that
-- admission opened, 2201E if a function has changed the search path on which named statements depend (`named_in` is null if there
-- were none). Both errors depend on the transaction's time, so that the planner does not raise them beforehand.
insert into latchkey.records (tenant, scope, key, created_at, id, operation, fingerprint_version, fingerprint,
    principal, attempt, token, summary, trace, state, answer, response_schema_version, finished_at,
    expires_at, forget_at)
select :'tenant'::text, :'scope'::text, :'key'::text, t.at, :'id'::uuid, :'operation'::text,
  :'fingerprint_version'::smallint, :'fingerprint'::bytea, :'principal'::text, :'attempt'::int,
  :'token'::uuid, :'summary'::bytea, :'trace'::text, 'completed', :'answer'::bytea, 1, t.at,
  t.at + :'retention_ms'::float8 * interval '1 millisecond',
  t.at + :'forget_after_ms'::float8 * interval '1 millisecond'
from (select case
    when pg_catalog.encode(pg_catalog.timestamptz_send(pg_catalog.now()), 'hex') <> :'began'::text
      then pg_catalog.to_timestamp(pg_catalog.sqrt(- pg_catalog.date_part('epoch', pg_catalog.now())))
    when pg_catalog.current_schemas(true)::text operator(pg_catalog.<>) :'named_in'::text
      then pg_catalog.to_timestamp(pg_catalog.ln(0 * pg_catalog.date_part('epoch', pg_catalog.now())))
    else pg_catalog.clock_timestamp() end as at
    offset 0) t
returning pg_catalog.encode(pg_catalog.timestamptz_send(expires_at), 'hex') as expires_at,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/;
