select b.standby, x.*
from (select pg_catalog.pg_is_in_recovery() as standby) b
left join lateral (select /*[synced*/pg_catalog.current_setting('synchronous_standby_names') <> ''/*|false]*/
    as standbys
  from latchkey.messages m
  where m.digest = pg_catalog.decode(:'digest'::text, 'hex') and m.state = 'dead') x on true;
