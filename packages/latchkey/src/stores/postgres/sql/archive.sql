-- One statement, so all of a batch or nothing of it. The table's name is the service's.
insert into latchkey_archive (id, tenant, scope, key, operation, principal, state, fingerprint_version, fingerprint, attempt, answer, summary,
  last_error_code, created_at, finished_at)
select x.id, x.tenant, x.scope, x.key, x.operation, x.principal, x.state, x.fingerprint_version,
  pg_catalog.decode(x.fingerprint, 'hex'), x.attempt, pg_catalog.decode(x.answer, 'hex'), pg_catalog.decode(x.summary,
  'hex'), x.last_error_code, pg_catalog.to_timestamp(x.created_at / 1000), pg_catalog.to_timestamp(x.finished_at /
  1000)
from pg_catalog.jsonb_to_recordset(:'records'::text::jsonb) as x (id uuid, tenant text, scope text, key text, operation text, principal text, state text, fingerprint_version
  smallint, fingerprint text, attempt integer, answer text, summary text, last_error_code text, created_at float8,
  finished_at float8)
on conflict (id) do nothing;
