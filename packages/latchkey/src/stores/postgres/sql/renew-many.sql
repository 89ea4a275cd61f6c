-- As `renew`, with a row for each renewal of a lease that still ran; waits for locks and is planned as `finish_many`. One lease may
-- be renewed twice at once.
with t as materialized (select pg_catalog.clock_timestamp() as at,
  pg_catalog.set_config('lock_timeout', '100ms', true) as lock_timeout),
k as materialized (select x.*, t.at
  from t cross join pg_catalog.json_to_recordset(:'rows'::text::json) x(place int, tenant text, scope text, key text,
    id uuid, attempt int, token uuid, lease_ms float8)
  where x.place between 0 and 100
  order by x.tenant collate "C", x.scope collate "C", x.key collate "C", x.place),
l as (
  update latchkey.leases l
  set locked_until = k.at + k.lease_ms * interval '1 millisecond'
  from k
  where l.tenant = k.tenant and l.scope = k.scope and l.key = k.key
    and l.record_id = k.id and l.attempt = k.attempt and l.token = k.token
    and l.locked_until > k.at
  returning l.tenant, l.scope, l.key, l.record_id, l.attempt, l.token)
select k.place, l.record_id::text as id
from k join l on l.tenant = k.tenant and l.scope = k.scope and l.key = k.key
  and l.record_id = k.id and l.attempt = k.attempt and l.token = k.token;
