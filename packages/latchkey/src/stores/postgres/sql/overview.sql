-- Each kind is read in the order of an index, so that a limit is reached without reading the table. Pending records
-- and effects have none by age: their oldest is the oldest of those that were counted.
select b.standby, x.*
from (select pg_catalog.pg_is_in_recovery() as standby) b
left join lateral (select
    pg_catalog.encode(pg_catalog.timestamptz_send((select pg_catalog.clock_timestamp())), 'hex') as now, k.*
  from (select 'pending' as kind, pg_catalog.count(x.at)::int as found,
      pg_catalog.encode(pg_catalog.timestamptz_send(coalesce(pg_catalog.min(x.at), timestamptz 'epoch')),
          'hex') as oldest
    from (select r.created_at as at
      from latchkey.records r
      where r.state = 'pending'
      order by r.operation, r.created_at
      limit :'count_max'::int + 1) x
    union all
    select 'in_progress' as kind, pg_catalog.count(x.at)::int as found,
      pg_catalog.encode(pg_catalog.timestamptz_send(coalesce(pg_catalog.min(x.at), timestamptz 'epoch')),
          'hex') as oldest
    from (select (select r.created_at
      from latchkey.records r
      where l.tenant = r.tenant and l.scope = r.scope and l.key = r.key and l.record_id = r.id
        and l.token = r.token and r.state = 'in_progress'
      limit 1) as at
      from (select * from latchkey.leases order by rescue_at limit :'count_max'::int + 1) l) x
    union all
    select 'retryable' as kind, pg_catalog.count(x.at)::int as found,
      pg_catalog.encode(pg_catalog.timestamptz_send(coalesce(pg_catalog.min(x.at), timestamptz 'epoch')),
          'hex') as oldest
    from (select r.created_at as at
      from latchkey.records r
      where r.state = 'retryable'
      order by r.created_at, r.id
      limit :'count_max'::int + 1) x
    union all
    select 'unknown' as kind, pg_catalog.count(x.at)::int as found,
      pg_catalog.encode(pg_catalog.timestamptz_send(coalesce(pg_catalog.min(x.at), timestamptz 'epoch')),
          'hex') as oldest
    from (select r.created_at as at
      from latchkey.records r
      where r.state = 'unknown'
      order by r.created_at, r.id
      limit :'count_max'::int + 1) x
    union all
    select 'overdue' as kind, pg_catalog.count(x.at)::int as found,
      pg_catalog.encode(pg_catalog.timestamptz_send(coalesce(pg_catalog.min(x.at), timestamptz 'epoch')),
          'hex') as oldest
    from (select l.rescue_at as at
      from latchkey.leases l
      where l.rescue_at <= (select pg_catalog.clock_timestamp())
      order by l.rescue_at
      limit :'count_max'::int + 1) x
    union all
    select 'effects' as kind, pg_catalog.count(x.at)::int as found,
      pg_catalog.encode(pg_catalog.timestamptz_send(coalesce(pg_catalog.min(x.at), timestamptz 'epoch')),
          'hex') as oldest
    from ((select o.created_at as at
      from latchkey.outbox o
      where o.state = 'pending' and not o.ordered
      order by o.aggregatetype, o.available_at, o.position
      limit :'count_max'::int + 1)
      union all (select o.created_at as at
        from latchkey.outbox o
        where o.ordered and o.state <> 'delivered' and o.state = 'pending'
        order by o.aggregatetype, o.tenant, o.aggregateid, o.position
        limit :'count_max'::int + 1)) x
    union all
    select 'claimed' as kind, pg_catalog.count(x.at)::int as found,
      pg_catalog.encode(pg_catalog.timestamptz_send(coalesce(pg_catalog.min(x.at), timestamptz 'epoch')),
          'hex') as oldest
    from (select o.created_at as at
      from latchkey.outbox o
      where o.state = 'claimed'
      order by o.claimed_at
      limit :'count_max'::int + 1) x
    union all
    select 'dead' as kind, pg_catalog.count(x.at)::int as found,
      pg_catalog.encode(pg_catalog.timestamptz_send(coalesce(pg_catalog.min(x.at), timestamptz 'epoch')),
          'hex') as oldest
    from (select o.created_at as at
      from latchkey.outbox o
      where o.state = 'dead'
      order by o.created_at
      limit :'count_max'::int + 1) x
    union all
    select 'dead_messages' as kind, pg_catalog.count(x.at)::int as found,
      pg_catalog.encode(pg_catalog.timestamptz_send(coalesce(pg_catalog.min(x.at), timestamptz 'epoch')),
          'hex') as oldest
    from (select m.died_at as at
      from latchkey.messages m
      where m.state = 'dead'
      order by m.died_at
      limit :'count_max'::int + 1) x) k) x on true;
