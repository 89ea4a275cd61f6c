-- As `complete`, for many records.
insert into latchkey.records (tenant, scope, key, created_at, id, operation, fingerprint_version, fingerprint,
    principal, attempt, token, summary, state, answer, response_schema_version, finished_at,
    expires_at, forget_at)
select x.tenant, x.scope, x.key, t.at, x.id, x.operation, x.fingerprint_version,
  pg_catalog.decode(x.fingerprint, 'hex'), x.principal, x.attempt, x.token,
  pg_catalog.decode(x.summary, 'hex'), 'completed', pg_catalog.decode(x.answer, 'hex'), 1, t.at,
  t.at + x.retention_ms * interval '1 millisecond',
  t.at + x.forget_after_ms * interval '1 millisecond'
from (select case when pg_catalog.encode(pg_catalog.timestamptz_send(pg_catalog.now()), 'hex') =
    :'began'::text then pg_catalog.clock_timestamp() else
    pg_catalog.to_timestamp(pg_catalog.sqrt(- pg_catalog.date_part('epoch', pg_catalog.now()))) end as at
    offset 0) t,
  pg_catalog.json_to_recordset(:'lives'::text::json) x(tenant text, scope text, key text, id uuid, operation text,
    fingerprint_version smallint, fingerprint text, principal text, attempt int, token uuid, summary text, trace text,
    answer text, retention_ms float8, forget_after_ms float8)
returning id::text as id, pg_catalog.encode(pg_catalog.timestamptz_send(expires_at), 'hex') as expires_at,
  (select case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
    pg_catalog.set_config('client_min_messages', 'warning', true) end) as commit_messages/*[synced*/,
  (select case when pg_catalog.current_setting('synchronous_commit') = 'off' then
    pg_catalog.set_config('synchronous_commit', 'on', true) end) as commit_synced/*]*/;
