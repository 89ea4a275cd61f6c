-- Per operation, so that records which this process cannot settle are not read every time.
-- timestamptz(3): rounded as the columns are, so that what became due in this millisecond is due.
with t as materialized (select pg_catalog.clock_timestamp() as at),
due as materialized (
  select d.*
  from pg_catalog.jsonb_array_elements_text(:'operations'::text::jsonb) o(name)
  cross join lateral (
    select r.ctid as row_id, r.id, r.reconcile_after
    from latchkey.records r
    where r.state = 'unknown' and r.operation = o.name and r.reconcile_after <= (select at::timestamptz(3) from t)
    order by r.reconcile_after
    limit :'limit'::int
    for update skip locked) d
  order by d.reconcile_after
  limit :'limit'::int),
r as (
  update latchkey.records r
  set reconcile_after = t.at + :'claim_ms'::float8 * interval '1 millisecond',
    reconcile_tries = r.reconcile_tries + 1
  from t
  where r.ctid = any (array(select row_id from due)) and r.state = 'unknown'
  returning r.*)
select pg_catalog.encode(pg_catalog.record_send(r), 'hex') as record,
  pg_catalog.encode(pg_catalog.timestamptz_send(l.locked_until), 'hex') as lease_ends_at,
  r.reconcile_tries as tries,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from r
join due on due.id = r.id
cross join (select null::timestamptz as locked_until) l
order by due.reconcile_after;
