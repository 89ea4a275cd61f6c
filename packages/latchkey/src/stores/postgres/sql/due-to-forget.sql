-- The records that `forget` would remove, unchanged.
select b.standby, x.*
from (select pg_catalog.pg_is_in_recovery() as standby) b
left join lateral (select pg_catalog.encode(pg_catalog.record_send(r), 'hex') as record,
    pg_catalog.encode(pg_catalog.timestamptz_send(l.locked_until), 'hex') as lease_ends_at,
    pg_catalog.encode(r.summary, 'hex') as summary
  from latchkey.records r
  cross join (select null::timestamptz as locked_until) l
  where (r.state in ('completed', 'failed') or r.state = 'expired')
    and r.forget_at <= (select pg_catalog.clock_timestamp())
    and (select o.id from latchkey.outbox o where o.record_id = r.id and o.state <> 'delivered' limit 1) is
    null
  order by r.forget_at
  limit :'limit'::int) x on true;
