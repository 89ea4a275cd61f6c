select b.standby, x.*
from (select pg_catalog.pg_is_in_recovery() as standby) b
left join lateral (select e.said
  from latchkey.early e
  where e.tenant = :'tenant'::text and e.scope = :'scope'::text and e.key = :'key'::text
    and e.record_id = :'id'::uuid
  order by e.kept_at, e.audit_id) x on true;
