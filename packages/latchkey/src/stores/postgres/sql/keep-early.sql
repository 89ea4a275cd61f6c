-- Locks the record: a transaction that makes it unknown waits, and then finds the kept settlement.
with t as materialized (select pg_catalog.clock_timestamp() as at),
free as materialized (
  select r.id
  from latchkey.records r
  where r.tenant = :'tenant'::text and r.scope = :'scope'::text and r.key = :'key'::text
    and r.id = :'guard_id'::uuid and r.state = :'guard_state'::text and r.attempt = :'guard_attempt'::int
    and r.token = :'guard_token'::uuid and r.state in ('in_progress', 'retryable') for update),
e as (
  insert into latchkey.early (record_id, audit_id, tenant, scope, key, kept_at, said)
  select free.id, :'audit_id'::uuid, :'tenant'::text, :'scope'::text, :'key'::text, t.at, :'said'::text
  from free, t
  on conflict (record_id, audit_id) do nothing
  returning 1)
select 1 as kept, (select pg_catalog.count(*)::int from e) as new,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from free;
