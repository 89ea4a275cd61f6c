-- The rows of one batch, locked. By ctid a batch costs a fifth of what it costs by primary key.
with t as materialized (select pg_catalog.clock_timestamp() as at),
due as materialized (
  select r.ctid as row_id
  from latchkey.records r
  where r.state in ('completed', 'failed') and r.expires_at < r.forget_at
    and r.expires_at <= (select at from t)
  order by r.expires_at
  limit :'limit'::int
  for update skip locked),
done as (
  update latchkey.records r
  set state = 'expired', answer = null, response_schema_version = null
  where r.ctid = any (array(select row_id from due)) and r.state in ('completed', 'failed')
  returning 1)
select pg_catalog.count(*)::int as purged
from done;
