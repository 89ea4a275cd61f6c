-- Ordered aggregates of which an effect is claimed. The last condition always holds; it makes the planner use the small index.
-- An effect as `effectOf` reads it, from `o`.
-- Of each wanted effect those due first. There is no cursor: `from_ms` is only where the index is entered.
-- An aggregate with a claimed effect is skipped, because a row that was committed late may be before that effect.
-- The claim is the start, too, and changes the same columns as `start`.
-- Rows that this process could not claim are left out for a while, so that they do not block other rows.
-- The first undelivered row of each ordered aggregate after `after_…`, with one probe of the index for each, so that rows
-- queued after it cost nothing, however many they are. Reads only as many as are wanted.
-- timestamptz(3): rounded as the columns are, so that what became due in this millisecond is due.
with t as materialized (select pg_catalog.clock_timestamp() as at),
held as materialized (
  select o.aggregatetype, o.tenant, o.aggregateid
  from latchkey.outbox o
  where o.state = 'claimed' and o.ordered and o.claimed_at <= 'infinity'),
due as materialized (select d.*
  from pg_catalog.json_to_recordset(:'wants'::text::json) as
    w(effect text, room int, from_ms float8, after_tenant text, after_aggregate text)
  cross join lateral (
    select *
    from (select o.ctid as row_id, o.id, o.available_at, o.position
      from latchkey.outbox o
      where o.state = 'pending' and not o.ordered and o.aggregatetype = w.effect
        and o.available_at <= (select at::timestamptz(3) from t)
        and o.available_at >=
        coalesce(timestamptz 'epoch' + w.from_ms * interval '1 millisecond', '-infinity'::timestamptz)
        and o.id <> all
        (array( select s.id::uuid from pg_catalog.json_array_elements_text(:'quarantined'::text::json) s(id)))
      order by o.available_at, o.position
      limit w.room
      for update of o skip locked) u
    union all
    select *
    from (with recursive heads as (
      select f.*
      from (select o.ctid as row_id, o.id, o.tenant, o.aggregateid, o.state, o.available_at, o.position
        from latchkey.outbox o
        where o.ordered and o.state <> 'delivered' and o.aggregatetype = w.effect
          and (o.tenant, o.aggregateid) > (coalesce(w.after_tenant, ''), coalesce(w.after_aggregate, ''))
        order by o.tenant, o.aggregateid, o.position
        limit 1) f
      union all
      select n.*
      from heads p
      cross join lateral (select o.ctid as row_id, o.id, o.tenant, o.aggregateid, o.state, o.available_at,
          o.position
        from latchkey.outbox o
        where o.ordered and o.state <> 'delivered' and o.aggregatetype = w.effect
          and (o.tenant, o.aggregateid) > (p.tenant, p.aggregateid)
        order by o.tenant, o.aggregateid, o.position
        limit 1) n)
      select o.ctid as row_id, o.id, o.available_at, o.position
      from (
        select h.id
        from heads h
        where h.state = 'pending' and h.available_at <= (select at::timestamptz(3) from t)
          and not exists (
            select 1
            from held x
            where x.aggregatetype = w.effect and x.tenant = h.tenant and x.aggregateid = h.aggregateid)
        limit w.room) e
      join latchkey.outbox o on o.id = e.id
      where o.state = 'pending'
        and o.id <> all
        (array( select s.id::uuid from pg_catalog.json_array_elements_text(:'quarantined'::text::json) s(id)))
      for update of o skip locked) q
    limit w.room) d),
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
  (select case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
      pg_catalog.set_config('client_min_messages', 'warning', true) end) as commit_messages/*[synced*/,
  (select case when pg_catalog.current_setting('synchronous_commit') = 'off' then
      pg_catalog.set_config('synchronous_commit', 'on', true) end) as commit_synced/*]*/
from o
order by o.available_at, o.position;
