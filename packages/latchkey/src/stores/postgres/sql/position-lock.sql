-- One process at a time moves the sequence forward.
select pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended(
  'latchkey pg_catalog.pg_get_serial_sequence(latchkey.outbox, position)::regclass', 0))::text as locked;
