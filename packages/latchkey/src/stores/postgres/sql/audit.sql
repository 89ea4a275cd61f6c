select b.standby, x.*
from (select pg_catalog.pg_is_in_recovery() as standby) b
left join lateral (select /*[synced*/pg_catalog.current_setting('synchronous_standby_names') <> ''/*|false]*/
    as standbys, a.id::text as id, pg_catalog.encode(pg_catalog.timestamptz_send(a.at), 'hex') as at,
    a.tenant, a.scope, a.key, a.record_id::text as record_id, a.effect_id::text as effect_id, a.event,
    a.from_state, a.to_state, a.actor, a.proof, a.reason
  from latchkey.audit a
  where a.tenant = :'tenant'::text and a.scope = :'scope'::text and a.key = :'key'::text
  order by a.at, a.id) x on true;
