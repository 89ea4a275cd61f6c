with t as materialized (select pg_catalog.clock_timestamp() as at)
update latchkey.leases l
set locked_until = t.at + :'lease_ms'::float8 * interval '1 millisecond'
from t
where l.tenant = :'tenant'::text and l.scope = :'scope'::text and l.key = :'key'::text
  and l.record_id = :'id'::uuid and l.attempt = :'attempt'::int and l.token = :'token'::uuid
  and l.locked_until > t.at
returning 1 as renewed;
