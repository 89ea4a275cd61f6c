-- Of an ordered aggregate, which belongs to one tenant, only the first undelivered effect.
-- An effect as `effectOf` reads it, from `o`.
-- The claim is the start, too, and changes the same columns as `start`.
-- timestamptz(3): rounded as the columns are, so that what became due in this millisecond is due.
with t as materialized (select pg_catalog.clock_timestamp() as at),
due as materialized (
  select o.ctid as row_id
  from latchkey.outbox o
  where o.id = :'id'::uuid and o.state = 'pending' and o.available_at <= (select at::timestamptz(3) from t)
    and (not o.ordered
        or o.position = (
          select x.position
          from latchkey.outbox x
          where x.ordered and x.state <> 'delivered' and x.aggregatetype = o.aggregatetype
            and x.tenant = o.tenant and x.aggregateid = o.aggregateid
          order by x.position
          limit 1))
  for update skip locked),
o as (update latchkey.outbox o
  set state = 'claimed', attempt = o.attempt + 1, token = :'token'::uuid, claimed_at = t.at,
    locked_until = t.at + :'lease_ms'::float8 * interval '1 millisecond', ended = null,
    started_at = case when (o.doubtful_since is null and o.result is null
        and o.aggregatetype = any (array(
          select s.effect
          from pg_catalog.json_array_elements_text(:'starting'::text::json) s(effect)))) then t.at end,
    sends = o.sends + (o.doubtful_since is null and o.result is null
        and o.aggregatetype = any (array(
          select s.effect
          from pg_catalog.json_array_elements_text(:'starting'::text::json) s(effect))))::int,
    doubtful_since = case when (o.doubtful_since is null and o.result is null
        and o.aggregatetype = any (array(
          select s.effect
          from pg_catalog.json_array_elements_text(:'starting'::text::json) s(effect)))) then t.at else
    o.doubtful_since end
  from t
  where o.ctid = any (array(select row_id from due)) and o.state = 'pending'
  returning o.*)
select o.id::text as id, o.tenant, o.scope, o.key, o.record_id::text as record_id, o.type as operation,
  pg_catalog.encode(o.fingerprint, 'hex') as fingerprint, o.aggregatetype as effect, o.step, o.index,
  o.generation, o.downstream_key, o.aggregate, o.ordered, pg_catalog.encode(o.payload, 'hex') as input,
  o.state, o.started_at is not null as started, o.attempt, o.token::text as token, o.sends, o.returns,
  pg_catalog.encode(o.result, 'hex') as result, o.last_error_code,
  pg_catalog.encode(pg_catalog.timestamptz_send(o.created_at), 'hex') as created_at,
  pg_catalog.encode(pg_catalog.timestamptz_send(o.available_at), 'hex') as available_at,
  pg_catalog.encode(pg_catalog.timestamptz_send(o.doubtful_since), 'hex') as doubtful_since,
  pg_catalog.encode(pg_catalog.timestamptz_send(o.finished_at), 'hex') as finished_at, o.trace,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
  pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off' then
  pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/
from o;
