-- Which ends that changed nothing repeat an earlier one.
-- The column `claimed_at` means the same as `state = 'claimed'`, but keeps the planner on the primary key: the index of
-- claimed rows may be full of dead ones.
select b.standby, x.*
from (select pg_catalog.pg_is_in_recovery() as standby) b
left join lateral (select o.id::text as id,
    /*[synced*/pg_catalog.current_setting('synchronous_standby_names') <> ''/*|false]*/ as standbys
  from pg_catalog.jsonb_to_recordset(:'ends'::text::jsonb) as c(id uuid, attempt int, token uuid, event text,
      result text, keep_ms float8, error_code text, after_ms float8, doubtful boolean, returned boolean,
      downstream_key text, unsent boolean)
  join latchkey.outbox o on o.id = c.id and o.attempt = c.attempt and o.token = c.token
  where o.ended = c.event) x on true;
