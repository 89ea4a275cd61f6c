select b.standby, x.*
from (select pg_catalog.pg_is_in_recovery() as standby) b
left join lateral (select pg_catalog.encode(r.summary, 'hex') as summary
  from latchkey.records r
  where r.tenant = :'tenant'::text and r.scope = :'scope'::text and r.key = :'key'::text
    and r.id = :'id'::uuid) x on true;
