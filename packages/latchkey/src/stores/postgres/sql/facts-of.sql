select b.standby, x.*
from (select pg_catalog.pg_is_in_recovery() as standby) b
left join lateral (select k.kind, k.count, k.facts::text as facts
  from latchkey.facts k
  where k.tenant = :'tenant'::text and k.scope = :'scope'::text and k.key = :'key'::text
    and k.record_id = :'id'::uuid
  order by k.kind) x on true;
