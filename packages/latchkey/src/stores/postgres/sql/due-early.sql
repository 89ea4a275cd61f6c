-- LIMIT 1 keeps the planner from reading all records.
select b.standby, x.*
from (select pg_catalog.pg_is_in_recovery() as standby) b
left join lateral (select due.*
  from latchkey.early e
  cross join lateral (
    select pg_catalog.encode(pg_catalog.record_send(r), 'hex') as record,
      pg_catalog.encode(pg_catalog.timestamptz_send(l.locked_until), 'hex') as lease_ends_at
    from latchkey.records r
    cross join (select null::timestamptz as locked_until) l
    where r.tenant = e.tenant and r.scope = e.scope and r.key = e.key and r.id = e.record_id
      and r.state = 'unknown'
    limit 1) due
  where e.kept_at <= 'infinity'
  order by e.kept_at
  limit :'limit'::int) x on true;
