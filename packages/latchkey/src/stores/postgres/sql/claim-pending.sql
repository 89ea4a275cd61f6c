-- A life is claimed when it has got one of the tokens, so each token is given to one life.
-- Records that this process could not claim are left out for a while, so that they do not block other rows.
with t as materialized (select pg_catalog.clock_timestamp() as at),
wants as materialized (
  select w.*
  from pg_catalog.json_to_recordset(:'wants'::text::json) as w(operation text, tokens json, room int,
      lease_ms float8, lease_end text, attempts_max int, abandon_after_ms float8)),
due as materialized (
  select d.row_id, d.id,
    (w.tokens ->> (pg_catalog.row_number() over (partition by w.operation order by d.created_at))::int -
        1)::uuid as token
  from wants w
  cross join lateral (
    select r.ctid as row_id, r.id, r.created_at, r.tenant, r.scope, r.key
    from latchkey.records r
    where r.state = 'pending' and r.operation = w.operation and r.expires_at > (select at from t)
      and r.id <> all
      (array( select s.id::uuid from pg_catalog.json_array_elements_text(:'quarantined'::text::json) s(id)))
    order by r.created_at
    limit w.room
    for update skip locked) d),
r as (
  update latchkey.records r
  set state = 'in_progress', attempt = 1, token = due.token,
    expires_at = r.created_at + w.abandon_after_ms * interval '1 millisecond'
  from due, wants w
  where r.ctid = any (array(select row_id from due)) and r.id = due.id and w.operation = r.operation
    and r.state = 'pending'
  returning r.*),
l as (
  insert into latchkey.leases (tenant, scope, key, record_id, operation, attempt, token, locked_until,
      lease_end, attempts_max, abandon_at)
  select r.tenant, r.scope, r.key, r.id, r.operation, r.attempt, r.token,
    t.at + w.lease_ms * interval '1 millisecond', w.lease_end, w.attempts_max, r.expires_at
  from r
  join wants w on w.operation = r.operation
  cross join t
  on conflict (tenant, scope, key) do update set record_id = excluded.record_id,
    operation = excluded.operation, attempt = excluded.attempt, token = excluded.token,
    locked_until = excluded.locked_until, lease_end = excluded.lease_end,
    attempts_max = excluded.attempts_max, abandon_at = excluded.abandon_at
  returning record_id, locked_until)
select pg_catalog.encode(pg_catalog.record_send(r), 'hex') as record,
  pg_catalog.encode(pg_catalog.timestamptz_send(l.locked_until), 'hex') as lease_ends_at,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from r
join l on l.record_id = r.id
order by r.created_at, r.id;
