-- Deletes the owner's lease before its record is touched: all statements lock the two in this order.
with gone as (delete from latchkey.leases l
  where l.tenant = :'tenant'::text and l.scope = :'scope'::text and l.key = :'key'::text
    and l.record_id = :'id'::uuid and l.attempt = :'attempt'::int and l.token = :'token'::uuid
  returning 1),
r as (
  delete from latchkey.records r
  where r.tenant = :'tenant'::text and r.scope = :'scope'::text and r.key = :'key'::text
    and r.id = :'id'::uuid and r.state = 'in_progress' and r.attempt = :'attempt'::int
    and r.token = :'token'::uuid and (select pg_catalog.count(*) from gone) is not null
  returning r.id),
s as ( delete from latchkey.steps s where s.record_id = any (array(select id from r)) returning 1),
f as (
  delete from latchkey.facts f
  where f.tenant = :'tenant'::text and f.scope = :'scope'::text and f.key = :'key'::text
    and exists (select 1 from r)
  returning 1)
select 1 as released,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from r;
