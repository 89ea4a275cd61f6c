-- Raises also when the record no longer has that version.
-- The effect whose delivery ends, with the result that was kept.
with t as materialized (select case when
    pg_catalog.encode(pg_catalog.timestamptz_send(pg_catalog.now()), 'hex') = :'began'::text then
    pg_catalog.clock_timestamp() else
    pg_catalog.to_timestamp(pg_catalog.sqrt(- pg_catalog.date_part('epoch', pg_catalog.now()))) end as at),
e as (
  update latchkey.outbox o
  set state = 'delivered', ended = 'deliver', claimed_at = null, locked_until = null, started_at = null,
    finished_at = t.at, expires_at = t.at + :'keep_ms'::float8 * interval '1 millisecond',
    returns = case when o.result is null and o.started_at is not null then o.returns + 1 else o.returns end
  from t
  where o.id = :'effect_id'::uuid and o.claimed_at is not null and o.attempt = :'claim_attempt'::int
    and o.token = :'claim_token'::uuid
  returning 1),
r as (
  update latchkey.records r
  set state = 'completed', answer = :'answer'::bytea, response_schema_version = 1, last_error_code = null,
    input = null, reconcile_after = null, finished_at = t.at,
    expires_at = t.at + :'retention_ms'::float8 * interval '1 millisecond',
    forget_at = t.at + :'forget_after_ms'::float8 * interval '1 millisecond'
  from t
  where r.tenant = :'tenant'::text and r.scope = :'scope'::text and r.key = :'key'::text
    and r.id = :'guard_id'::uuid and r.state = :'guard_state'::text and r.attempt = :'guard_attempt'::int
    and r.token = :'guard_token'::uuid and r.state = 'retryable'
  returning 1)
select 1 / (pg_catalog.count(*) * (select pg_catalog.count(*) from r))::int as written,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from e;
