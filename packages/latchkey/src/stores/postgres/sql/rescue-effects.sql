-- Also returns when the oldest claim was made, so that the next rescue need not look before it.
-- Rows that this process could not claim are left out for a while, so that they do not block other rows.
with t as materialized (select pg_catalog.clock_timestamp() as at),
due as materialized (
  select o.ctid as row_id, o.id, o.started_at is not null as started
  from latchkey.outbox o
  where o.claimed_at >=
    coalesce(timestamptz 'epoch' + :'from_ms'::float8 * interval '1 millisecond', '-infinity'::timestamptz)
    and o.id <> all
    (array( select s.id::uuid from pg_catalog.json_array_elements_text(:'quarantined'::text::json) s(id)))
    and o.state = 'claimed' and o.locked_until <= (select at from t)
  order by o.claimed_at
  limit :'limit'::int
  for update skip locked),
done as (
  update latchkey.outbox o
  set state = 'pending', claimed_at = null, locked_until = null, started_at = null,
    available_at = case when o.started_at is null then o.available_at else t.at end
  from t
  where o.ctid = any (array(select row_id from due)) and o.state = 'claimed' and o.locked_until <= t.at
  returning o.id)
select (pg_catalog.count(*) filter (where not due.started))::int as unstarted,
  (pg_catalog.count(*) filter (where due.started))::int as started,
  (select pg_catalog.encode(pg_catalog.timestamptz_send(coalesce(pg_catalog.min(oldest.claimed_at),
      pg_catalog.min(t.at))), 'hex')
    from t
    left join lateral (
      select o.claimed_at
      from latchkey.outbox o
      where o.state = 'claimed'
        and o.claimed_at >= coalesce(timestamptz 'epoch' + :'from_ms'::float8 * interval '1 millisecond',
            '-infinity'::timestamptz)
      order by o.claimed_at
      limit 1) oldest on true) as oldest,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from due
join done on done.id = due.id;
