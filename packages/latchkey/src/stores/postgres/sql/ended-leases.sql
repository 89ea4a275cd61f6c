-- LIMIT 1 in the sub-select keeps the planner on the two indexes: freely joined, it guesses that many leases have
-- ended and reads the whole table of records.
select ended.*
from latchkey.leases due
cross join lateral (
  select l.lease_end, l.attempts_max, pg_catalog.encode(pg_catalog.record_send(r), 'hex') as record,
    pg_catalog.encode(pg_catalog.timestamptz_send(l.locked_until), 'hex') as lease_ends_at
  from (select due.*) l
  join latchkey.records r on l.tenant = r.tenant and l.scope = r.scope and l.key = r.key
    and l.record_id = r.id and l.token = r.token and r.state = 'in_progress'
  limit 1) ended
where due.rescue_at <= (select pg_catalog.clock_timestamp())
order by due.rescue_at
limit :'limit'::int;
