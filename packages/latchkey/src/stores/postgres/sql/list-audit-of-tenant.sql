-- Sorts the tenant's rows. The planner might read the index `audit_at` instead, and with it the rows of
-- all other tenants, so the column itself is not named.
select b.standby, x.*
from (select pg_catalog.pg_is_in_recovery() as standby) b
left join lateral (select a.id::text as id, pg_catalog.encode(pg_catalog.timestamptz_send(a.at), 'hex') as at,
    a.tenant, a.scope, a.key, a.record_id::text as record_id, a.effect_id::text as effect_id, a.event,
    a.from_state, a.to_state, a.actor, a.proof, a.reason
  from latchkey.audit a
  where a.tenant = :'tenant'::text
    and (a.at + interval '0', a.id) < ( coalesce(timestamptz 'epoch' + :'before_ms'::float8 * interval
        '1 millisecond', 'infinity'::timestamptz),
        coalesce(:'before_id'::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid))
  order by a.at + interval '0' desc, a.id desc
  limit :'limit'::int) x on true;
