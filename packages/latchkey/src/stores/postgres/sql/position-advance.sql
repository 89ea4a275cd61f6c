-- Other sessions take values while this one reads, but never as many as the margin.
select pg_catalog.setval(pg_catalog.pg_get_serial_sequence('latchkey.outbox', 'position')::regclass,
  (select coalesce(pg_catalog.max(o.position), 0) from latchkey.outbox o where o.ordered and o.state <> 'delivered')
    + :'margin'::int)::text as advanced
where coalesce(pg_catalog.pg_sequence_last_value(pg_catalog.pg_get_serial_sequence('latchkey.outbox', 'position')::regclass), 0)
  < (select coalesce(pg_catalog.max(o.position), 0) from latchkey.outbox o where o.ordered and o.state <> 'delivered');
