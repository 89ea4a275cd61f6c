select b.standby, x.*
from (select pg_catalog.pg_is_in_recovery() as standby) b
left join lateral (select o.id::text as id,
    /*[synced*/pg_catalog.current_setting('synchronous_standby_names') <> ''/*|false]*/ as standbys
  from pg_catalog.jsonb_to_recordset(:'claims'::text::jsonb) as c(id uuid, attempt int, token uuid)
  join latchkey.outbox o on o.id = c.id and o.attempt = c.attempt and o.token = c.token
  where o.started_at is not null and o.locked_until > (select pg_catalog.clock_timestamp())) x on true;
