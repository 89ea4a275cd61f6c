-- Leases whose attempt is over. A phase above READ COMMITTED leaves one when its process dies right after its
-- COMMIT. They block nothing, so they are kept for a minute: this statement may not see the record of a lease that is younger
-- than itself.
with t as materialized (select pg_catalog.clock_timestamp() as at),
due as materialized (
  select l.ctid as row_id
  from latchkey.leases l
  where l.rescue_at <= (select at from t) - interval '1 minute'
    and (
      select r.id
      from latchkey.records r
      where l.tenant = r.tenant and l.scope = r.scope and l.key = r.key and l.record_id = r.id
        and l.token = r.token and r.state = 'in_progress'
      limit 1) is null
  order by l.rescue_at
  limit :'limit'::int
  for update of l skip locked)
delete from latchkey.leases l
where l.ctid = any (array(select row_id from due));
