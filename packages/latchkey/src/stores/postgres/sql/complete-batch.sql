-- As `complete`, for many records. What may be missing in a list is `-`, or has `=` before it.
insert into latchkey.records (tenant, scope, key, created_at, id, operation, fingerprint_version, fingerprint,
    principal, attempt, token, summary/*[traced*/, trace/*]*/, state, answer, response_schema_version, finished_at,
    expires_at, forget_at)
select x.tenant, x.scope, x.key, t.at, x.id, x.operation, x.fingerprint_version,
  pg_catalog.decode(x.fingerprint, 'hex'), case when x.principal <> '-' then pg_catalog.substr(x.principal, 2) end,
  x.attempt, x.token,
  pg_catalog.decode(case when x.summary <> '-' then pg_catalog.substr(x.summary, 2) end, 'hex')/*[traced*/,
  case when x.trace <> '-' then pg_catalog.substr(x.trace, 2) end/*]*/,
  'completed', pg_catalog.decode(x.answer, 'hex'), 1, t.at,
  t.at + x.retention_ms * interval '1 millisecond',
  t.at + x.forget_after_ms * interval '1 millisecond'
from (select case when pg_catalog.encode(pg_catalog.timestamptz_send(pg_catalog.now()), 'hex') =
    :'began'::text then pg_catalog.clock_timestamp() else
    pg_catalog.to_timestamp(pg_catalog.sqrt(- pg_catalog.date_part('epoch', pg_catalog.now()))) end as at
    offset 0) t,
  unnest(:'tenants'::text::text[], :'scopes'::text::text[], :'keys'::text::text[], :'ids'::text::uuid[],
    :'operations'::text::text[], :'fingerprint_versions'::text::smallint[], :'fingerprints'::text::text[],
    :'principals'::text::text[], :'attempts'::text::int[], :'tokens'::text::uuid[],
    :'summaries'::text::text[]/*[traced*/, :'traces'::text::text[]/*]*/,
    :'answers'::text::text[], :'retentions_ms'::text::float8[], :'forget_afters_ms'::text::float8[])
  x(tenant, scope, key, id, operation, fingerprint_version, fingerprint, principal, attempt, token,
    summary/*[traced*/, trace/*]*/, answer, retention_ms, forget_after_ms)
returning id::text as id, pg_catalog.encode(pg_catalog.timestamptz_send(expires_at), 'hex') as expires_at,
  (select case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
    pg_catalog.set_config('client_min_messages', 'warning', true) end) as commit_messages/*[synced*/,
  (select case when pg_catalog.current_setting('synchronous_commit') = 'off' then
    pg_catalog.set_config('synchronous_commit', 'on', true) end) as commit_synced/*]*/;
