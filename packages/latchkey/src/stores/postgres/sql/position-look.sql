-- `last` is null without the privilege to read the sequence, which inserting does not need. Only undelivered effects have an
-- order to keep, and an index by which they are found.
select case when pg_catalog.has_sequence_privilege(pg_catalog.pg_get_serial_sequence('latchkey.outbox', 'position')::regclass, 'SELECT, USAGE')
    then coalesce(pg_catalog.pg_sequence_last_value(pg_catalog.pg_get_serial_sequence('latchkey.outbox', 'position')::regclass), 0)::text
  end as last,
  pg_catalog.has_sequence_privilege(pg_catalog.pg_get_serial_sequence('latchkey.outbox', 'position')::regclass, 'UPDATE') as settable,
  (select coalesce(pg_catalog.max(o.position), 0) from latchkey.outbox o where o.ordered and o.state <> 'delivered')::text as highest;
