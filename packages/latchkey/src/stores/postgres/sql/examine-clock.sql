select pg_catalog.encode(pg_catalog.timestamptz_send((select pg_catalog.clock_timestamp())), 'hex') as now;
