-- As `open`, without a lock. Reads no row, because that would fix the transaction's snapshot, or, at SERIALIZABLE, be part of
-- its conflicts.
select pg_catalog.encode(pg_catalog.timestamptz_send(pg_catalog.now()), 'hex') as began,
  pg_catalog.concat_ws(E'\x1f', pg_catalog.current_setting('transaction_isolation'),
    pg_catalog.current_setting('transaction_read_only'), pg_catalog.current_setting('client_encoding'), session_user,
    pg_catalog.current_setting('role'), pg_catalog.current_setting('row_security'),
    pg_catalog.current_setting('search_path'), pg_catalog.current_schemas(true)/*[limits*/,
    pg_catalog.current_setting('idle_in_transaction_session_timeout'),
    pg_catalog.current_setting('statement_timeout'),
    pg_catalog.set_config('idle_in_transaction_session_timeout', /*[compared*/case
      when pg_catalog.current_setting('idle_in_transaction_session_timeout')::interval
        between interval '1 millisecond' and :'limit_ms'::text::float8 * interval '1 millisecond'
      then pg_catalog.current_setting('idle_in_transaction_session_timeout') else /*]*/:'limit_ms'::text/*[compared*/ end/*]*/, true),
    pg_catalog.set_config('statement_timeout', /*[compared*/case
      when pg_catalog.current_setting('statement_timeout')::interval
        between interval '1 millisecond' and :'limit_ms'::text::float8 * interval '1 millisecond'
      then pg_catalog.current_setting('statement_timeout') else /*]*/:'limit_ms'::text/*[compared*/ end/*]*/, true)/*|, '', '', '', '']*/) as session;
