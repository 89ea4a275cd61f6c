-- Whether a settlement that changed nothing repeats an earlier one.
select b.standby, x.*
from (select pg_catalog.pg_is_in_recovery() as standby) b
left join lateral (select /*[synced*/pg_catalog.current_setting('synchronous_standby_names') <> ''/*|false]*/
    as standbys
  from latchkey.audit a
  where a.id = :'audit_id'::uuid and a.record_id = :'guard_id'::uuid) x on true;
