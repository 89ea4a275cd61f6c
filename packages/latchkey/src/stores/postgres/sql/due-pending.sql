select b.standby, x.*
from (select pg_catalog.pg_is_in_recovery() as standby) b
left join lateral (with t as materialized (select pg_catalog.clock_timestamp() as at)
  select d.id::text as id, d.tenant, d.scope, d.key, w.operation
  from pg_catalog.json_to_recordset(:'wants'::text::json) as w(operation text, tokens json, room int,
      lease_ms float8, lease_end text, attempts_max int, abandon_after_ms float8)
  cross join lateral (select r.ctid as row_id, r.id, r.created_at, r.tenant, r.scope, r.key
    from latchkey.records r
    where r.state = 'pending' and r.operation = w.operation and r.expires_at > (select at from t)
      and r.id <> all
      (array( select s.id::uuid from pg_catalog.json_array_elements_text(:'quarantined'::text::json) s(id)))
    order by r.created_at
    limit w.room) d
  order by d.created_at) x on true;
