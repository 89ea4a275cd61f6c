with t as materialized (select pg_catalog.clock_timestamp() as at),
due as materialized (
  select o.ctid as row_id
  from latchkey.outbox o
  where o.state = 'delivered' and o.expires_at <= (select at from t)
  order by o.expires_at
  limit :'limit'::int
  for update skip locked),
done as (
  delete from latchkey.outbox o
  where o.ctid = any (array(select row_id from due)) and o.state = 'delivered'
  returning 1)
select pg_catalog.count(*)::int as effects
from done;
