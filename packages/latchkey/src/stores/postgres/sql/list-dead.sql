-- Only dead effects have an index in this order: a list of another state reads the whole table.
-- An effect as `effectOf` reads it, from `o`.
select b.standby, x.*
from (select pg_catalog.pg_is_in_recovery() as standby) b
left join lateral (select o.id::text as id, o.tenant, o.scope, o.key, o.record_id::text as record_id,
    o.type as operation, pg_catalog.encode(o.fingerprint, 'hex') as fingerprint, o.aggregatetype as effect,
    o.step, o.index, o.generation, o.downstream_key, o.aggregate, o.ordered,
    pg_catalog.encode(o.payload, 'hex') as input, o.state, o.started_at is not null as started, o.attempt,
    o.token::text as token, o.sends, o.returns, pg_catalog.encode(o.result, 'hex') as result,
    o.last_error_code, pg_catalog.encode(pg_catalog.timestamptz_send(o.created_at), 'hex') as created_at,
    pg_catalog.encode(pg_catalog.timestamptz_send(o.available_at), 'hex') as available_at,
    pg_catalog.encode(pg_catalog.timestamptz_send(o.doubtful_since), 'hex') as doubtful_since,
    pg_catalog.encode(pg_catalog.timestamptz_send(o.finished_at), 'hex') as finished_at, o.trace
  from latchkey.outbox o
  join (
    select x.id
    from latchkey.outbox x
    where x.state = 'dead'
      and (x.created_at, x.id) > ( coalesce(timestamptz 'epoch' + :'after_ms'::float8 * interval
          '1 millisecond', '-infinity'::timestamptz),
          coalesce(:'after_id'::uuid, '00000000-0000-0000-0000-000000000000'::uuid))
      and (:'only_tenant'::text is null or x.tenant = :'only_tenant'::text)
      and (:'only_effect'::text is null or x.aggregatetype = :'only_effect'::text)
    order by x.created_at, x.id
    limit :'limit'::int) page on page.id = o.id
  order by o.created_at, o.id) x on true;
