select b.standby, x.*
from (select pg_catalog.pg_is_in_recovery() as standby) b
left join lateral (select pg_catalog.encode(m.digest, 'hex') as digest, m.id::text as id, m.source,
    m.operation, m.tenant, m.key, m.reason, m.content_type, pg_catalog.encode(m.payload, 'hex') as payload,
    m.state, m.starts, m.returns, m.failures, m.last_error_code,
    pg_catalog.encode(pg_catalog.timestamptz_send(m.died_at), 'hex') as died_at
  from latchkey.messages m
  where m.state = 'dead'
    and (m.died_at, m.id) > ( coalesce('1970-01-01 00:00:00+00'::timestamptz + :'after_ms'::float8 * interval
        '1 millisecond', '-infinity'::timestamptz),
        coalesce(:'after_id'::uuid, '00000000-0000-0000-0000-000000000000'::uuid))
    and (:'only_tenant'::text is null or m.tenant = :'only_tenant'::text)
    and (:'only_operation'::text is null or m.operation = :'only_operation'::text)
  order by m.died_at, m.id
  limit :'limit'::int) x on true;
