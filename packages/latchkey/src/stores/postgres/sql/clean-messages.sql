with t as materialized (select pg_catalog.clock_timestamp() as at),
due as materialized (
  select m.ctid as row_id
  from latchkey.messages m
  where m.state = 'watched' and m.expires_at <= (select at from t)
  order by m.expires_at
  limit :'limit'::int
  for update skip locked),
done as (
  delete from latchkey.messages m
  where m.ctid = any (array(select row_id from due)) and m.state = 'watched'
  returning 1)
select pg_catalog.count(*)::int as messages
from done;
