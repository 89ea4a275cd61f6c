-- Locks the key without waiting. The look-up must be another statement, because the snapshot of this one is older than its
-- lock. `began` identifies the transaction. `session` is what the handler may change and what the rest depends on, in one
-- column, because each column of a result costs 2,000 instructions. The limits bound how long a dead or stuck process can keep
-- the key: when idle, and in a statement that outlives its caller. A lower limit of the user's own stays; without `compared`
-- it would be replaced, and the transaction begins again. The executor evaluates arguments from left to right, so the session's own limits are read before they change.
select pg_catalog.pg_try_advisory_xact_lock(:'lock'::text::bigint) as exclusive,
  pg_catalog.encode(pg_catalog.timestamptz_send(pg_catalog.now()), 'hex') as began,
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
