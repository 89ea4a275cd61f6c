-- Need not wait for the disk, because polling finds everything that a lost hint would have announced.
select pg_catalog.pg_notify(:'channel'::text, h.hint)::text as notified,
  pg_catalog.set_config('synchronous_commit', 'off', true) as unsynced
from pg_catalog.json_array_elements_text(:'hints'::text::json) h(hint);
