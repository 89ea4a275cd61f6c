-- How many of the newest records have columns that do not fit their state, and the newest of these. Ids begin with the time,
-- so this reads a bounded number of rows in the order of an index.
select pg_catalog.count(*)::int as looked_at, (pg_catalog.count(*) filter (where not x.fits))::int as wrong,
  pg_catalog.max(x.id::text) filter (where not x.fits) as newest_wrong
from (
  select r.id, r.attempt >= 0 and coalesce(r.forget_at >= r.expires_at, true) and case
    when r.state in ('completed', 'failed') then
      (r.answer is not null or r.state = 'failed')
      and pg_catalog.num_nulls(r.finished_at, r.expires_at, r.forget_at) = 0
      and pg_catalog.num_nonnulls(r.reconcile_after, r.input) = 0
    when r.state = 'expired' then
      pg_catalog.num_nulls(r.finished_at, r.forget_at) = 0
      and pg_catalog.num_nonnulls(r.answer, r.reconcile_after, r.input) = 0
    when r.state in ('pending', 'in_progress') then
      r.expires_at is not null
      and pg_catalog.num_nonnulls(r.answer, r.finished_at, r.forget_at, r.reconcile_after) = 0
    when r.state in ('retryable', 'unknown') then
      pg_catalog.num_nonnulls(r.answer, r.finished_at, r.expires_at, r.forget_at) = 0
    else false
  end as fits
  from (select * from latchkey.records r order by r.id desc limit 50000) r) x;
