with t as materialized (select pg_catalog.clock_timestamp() as at),
due as materialized (
  select a.id
  from latchkey.audit a
  where a.at <= (select at from t) - :'keep_ms'::float8 * interval '1 millisecond'
  order by a.at
  limit :'limit'::int
  for update skip locked),
done as ( delete from latchkey.audit a where a.id = any (array(select id from due)) returning 1)
select pg_catalog.count(*)::int as audit
from done;
