-- The claims that `rescueEffects` would free.
-- Rows that this process could not claim are left out for a while, so that they do not block other rows.
select b.standby, x.*
from (select pg_catalog.pg_is_in_recovery() as standby) b
left join lateral (with t as materialized (select pg_catalog.clock_timestamp() as at)
  select o.id::text as id
  from latchkey.outbox o
  where o.claimed_at >=
    coalesce(timestamptz 'epoch' + :'from_ms'::float8 * interval '1 millisecond', '-infinity'::timestamptz)
    and o.id <> all
    (array( select s.id::uuid from pg_catalog.json_array_elements_text(:'quarantined'::text::json) s(id)))
    and o.state = 'claimed' and o.locked_until <= (select at from t)
  order by o.claimed_at
  limit :'limit'::int) x on true;
