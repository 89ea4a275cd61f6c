-- Inserts the row if there is none, or overwrites exactly the row that was decided on.
-- The look-up first keeps a duplicate from waiting for a transaction that has changed the row.
-- `l` writes the lease, for the row that `r` has written.
with t as materialized (select pg_catalog.clock_timestamp() as at),
r as (insert into latchkey.records (tenant, scope, key, id, operation, state, fingerprint_version,
    fingerprint, principal, attempt, token, input, addressable, summary, created_at, expires_at/*[traced*/, trace/*]*/)
  select :'tenant'::text, :'scope'::text, :'key'::text, :'id'::uuid, :'operation'::text, 'in_progress',
    :'fingerprint_version'::smallint, :'fingerprint'::bytea, :'principal'::text, :'attempt'::int,
    :'token'::uuid, :'input'::bytea, :'addressable'::boolean, :'summary'::bytea, t.at,
    t.at + :'expires_after_ms'::float8 * interval '1 millisecond'/*[traced*/, :'trace'::text/*]*/
  from t
  where not exists (select 1
    from latchkey.records x
    where x.tenant = :'tenant'::text and x.scope = :'scope'::text and x.key = :'key'::text)
  on conflict (tenant, scope, key) do nothing
  returning created_at, expires_at),
l as (insert into latchkey.leases (tenant, scope, key, record_id, operation, attempt, token, locked_until,
    lease_end, attempts_max, abandon_at)
  select :'tenant'::text, :'scope'::text, :'key'::text, :'id'::uuid, :'operation'::text, :'attempt'::int,
    :'token'::uuid, t.at + :'lease_ms'::float8 * interval '1 millisecond', :'lease_end'::text,
    :'attempts_max'::int, r.expires_at
  from r, t
  on conflict (tenant, scope, key) do update set record_id = excluded.record_id,
    operation = excluded.operation, attempt = excluded.attempt, token = excluded.token,
    locked_until = excluded.locked_until, lease_end = excluded.lease_end,
    attempts_max = excluded.attempts_max, abandon_at = excluded.abandon_at
  returning locked_until)
select pg_catalog.encode(pg_catalog.timestamptz_send(r.created_at), 'hex') as created_at,
  pg_catalog.encode(pg_catalog.timestamptz_send(r.expires_at), 'hex') as expires_at,
  pg_catalog.encode(pg_catalog.timestamptz_send(l.locked_until), 'hex') as lease_ends_at,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from r , l;
