-- Raises 22012 when the claim no longer holds, because in a pipeline with COMMIT only an error stops the COMMIT.
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
  returning 1)
select 1 / pg_catalog.count(*)::int as written,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from e;
