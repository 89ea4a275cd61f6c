-- The rows that `claimEffects` would take, without reading the columns that may be damaged.
-- Ordered aggregates of which an effect is claimed. The last condition always holds; it makes the planner use the small index.
-- Of each wanted effect those due first. There is no cursor: `from_ms` is only where the index is entered.
-- An aggregate with a claimed effect is skipped, because a row that was committed late may be before that effect.
-- Rows that this process could not claim are left out for a while, so that they do not block other rows.
-- The first undelivered row of each ordered aggregate after `after_…`, with one probe of the index for each, so that rows
-- queued after it cost nothing, however many they are. Reads only as many as are wanted.
-- timestamptz(3): rounded as the columns are, so that what became due in this millisecond is due.
select b.standby, x.*
from (select pg_catalog.pg_is_in_recovery() as standby) b
left join lateral (with t as materialized (select pg_catalog.clock_timestamp() as at),
    held as materialized (
      select o.aggregatetype, o.tenant, o.aggregateid
      from latchkey.outbox o
      where o.state = 'claimed' and o.ordered and o.claimed_at <= 'infinity')
  select d.id::text as id
  from (select d.*
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
        limit w.room ) u
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
          (array( select s.id::uuid from pg_catalog.json_array_elements_text(:'quarantined'::text::json) s(id))) )
        q
      limit w.room) d) d) x on true;
