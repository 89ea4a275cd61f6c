select pg_catalog.current_setting('server_version') as version, pg_catalog.current_database()::text as database,
  current_user::text as role_name, pg_catalog.current_setting('default_transaction_isolation') as isolation,
  pg_catalog.current_setting('default_transaction_read_only') as read_only, pg_catalog.pg_is_in_recovery() as standby;
