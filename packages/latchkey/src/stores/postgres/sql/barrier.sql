select pg_catalog.pg_logical_emit_message(true, 'latchkey', '')::text as lsn;
