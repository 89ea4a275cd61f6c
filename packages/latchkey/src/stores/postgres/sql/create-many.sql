-- As `create`, with a row for each life that began. It waits only briefly for a lock, since all of its callers wait with it; each
-- of them can still wait alone. In the order of their keys two statements cannot wait for each other.
with t as materialized (select pg_catalog.clock_timestamp() as at,
  pg_catalog.set_config('lock_timeout', '100ms', true) as lock_timeout),
k as materialized (select *
  from pg_catalog.json_to_recordset(:'rows'::text::json) x(place int, tenant text, scope text, key text, id uuid,
    operation text, fingerprint_version smallint, fingerprint text, principal text, attempt int, token uuid, input text,
    addressable boolean, summary text, trace text, expires_after_ms float8, lease_ms float8, lease_end text,
    attempts_max int)
  order by x.tenant collate "C", x.scope collate "C", x.key collate "C", x.place),
r as (insert into latchkey.records (tenant, scope, key, id, operation, state, fingerprint_version,
    fingerprint, principal, attempt, token, input, addressable, summary, created_at, expires_at, trace)
  select k.tenant, k.scope, k.key, k.id, k.operation, 'in_progress', k.fingerprint_version,
    pg_catalog.decode(k.fingerprint, 'base64'), k.principal, k.attempt, k.token, pg_catalog.decode(k.input, 'base64'),
    k.addressable, pg_catalog.decode(k.summary, 'base64'), t.at,
    t.at + k.expires_after_ms * interval '1 millisecond', k.trace
  from t cross join k
  where (select 1
    from latchkey.records x
    where x.tenant = k.tenant and x.scope = k.scope and x.key = k.key
    limit 1) is null
  on conflict (tenant, scope, key) do nothing
  returning id, created_at, expires_at),
l as (insert into latchkey.leases (tenant, scope, key, record_id, operation, attempt, token, locked_until,
    lease_end, attempts_max, abandon_at)
  select k.tenant, k.scope, k.key, k.id, k.operation, k.attempt, k.token,
    t.at + k.lease_ms * interval '1 millisecond', k.lease_end, k.attempts_max, r.expires_at
  from r join k on k.id = r.id cross join t
  on conflict (tenant, scope, key) do update set record_id = excluded.record_id,
    operation = excluded.operation, attempt = excluded.attempt, token = excluded.token,
    locked_until = excluded.locked_until, lease_end = excluded.lease_end,
    attempts_max = excluded.attempts_max, abandon_at = excluded.abandon_at
  returning record_id, locked_until)
select k.place, r.id::text as id, pg_catalog.encode(pg_catalog.timestamptz_send(r.created_at), 'hex') as created_at,
  pg_catalog.encode(pg_catalog.timestamptz_send(r.expires_at), 'hex') as expires_at,
  pg_catalog.encode(pg_catalog.timestamptz_send(l.locked_until), 'hex') as lease_ends_at,
  (select case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
    pg_catalog.set_config('client_min_messages', 'warning', true) end) as commit_messages/*[synced*/,
  (select case when pg_catalog.current_setting('synchronous_commit') = 'off' then
    pg_catalog.set_config('synchronous_commit', 'on', true) end) as commit_synced/*]*/
from r join l on l.record_id = r.id join k on k.id = r.id;
