-- Waits only briefly for a lock, because all renewals of a process share one connection. Who holds the lock may be the last phase
-- of the same attempt, whose COMMIT may wait for other transactions.
with t as materialized (select pg_catalog.clock_timestamp() as at,
  pg_catalog.set_config('lock_timeout', '100ms', true) as lock_timeout)
update latchkey.leases l
set locked_until = t.at + :'lease_ms'::float8 * interval '1 millisecond'
from t
where l.tenant = :'tenant'::text and l.scope = :'scope'::text and l.key = :'key'::text
  and l.record_id = :'id'::uuid and l.attempt = :'attempt'::int and l.token = :'token'::uuid
  and l.locked_until > t.at
returning 1 as renewed;
