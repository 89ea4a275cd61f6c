-- LIMIT 1 around the record of a lease for the same reason as in `endedLeases`.
-- timestamptz(3): rounded as the columns are, so that what became due in this millisecond is due.
select b.standby, x.*
from (select pg_catalog.pg_is_in_recovery() as standby) b
left join lateral (with t as materialized (select pg_catalog.clock_timestamp() as at)
  select y.*
  from pg_catalog.jsonb_array_elements_text(:'operations'::text::jsonb) o(name)
  cross join lateral ( (select due.locked_until as due_at, ended.*
    from latchkey.leases due
    cross join lateral (
      select pg_catalog.encode(pg_catalog.record_send(r), 'hex') as record,
        pg_catalog.encode(pg_catalog.timestamptz_send(l.locked_until), 'hex') as lease_ends_at
      from (select due.*) l
      join latchkey.records r on l.tenant = r.tenant and l.scope = r.scope and l.key = r.key
        and l.record_id = r.id and l.token = r.token and r.state = 'in_progress'
      limit 1) ended
    where due.lease_end = 'resume' and due.attempt < due.attempts_max and due.operation = o.name
      and due.locked_until <= (select at from t) and due.abandon_at > (select at from t)
    order by due.locked_until
    limit :'limit'::int)
    union all (select r.reconcile_after as due_at,
        pg_catalog.encode(pg_catalog.record_send(r), 'hex') as record,
        pg_catalog.encode(pg_catalog.timestamptz_send(l.locked_until), 'hex') as lease_ends_at
      from latchkey.records r
      cross join (select null::timestamptz as locked_until) l
      where r.state = 'retryable' and r.operation = o.name and r.reconcile_after <= (select at::timestamptz(3) from t)
      order by r.reconcile_after
      limit :'limit'::int)) y
  order by y.due_at
  limit :'limit'::int) x on true;
