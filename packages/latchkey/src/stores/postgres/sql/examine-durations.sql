-- How long first attempts took, for a bounded number of records, those that are forgotten last, in the order of an index.
-- Without records that an operator or a webhook settled, because those did not end with their attempt.
select pg_catalog.count(*)::int as attempts,
  coalesce(pg_catalog.percentile_cont(0.99) within group (
    order by (extract(epoch from x.finished_at - x.created_at) * 1000)::float8), 0)::float8 as p99_ms
from (select * from latchkey.records r where r.forget_at is not null order by r.forget_at desc limit 50000) x
where x.operation = :'operation'::text and x.attempt = 1 and x.state in ('completed', 'failed')
  and not exists (select from latchkey.audit a
    where a.tenant = x.tenant and a.scope = x.scope and a.key = x.key and a.record_id = x.id);
