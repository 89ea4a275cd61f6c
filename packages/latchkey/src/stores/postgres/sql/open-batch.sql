-- As `open`, with a `t` or an `f` for each lock in their order.
select (select pg_catalog.string_agg(
    case when pg_catalog.pg_try_advisory_xact_lock(l.lock::bigint) then 't' else 'f' end, '' order by l.place)
  from pg_catalog.json_array_elements_text(:'locks'::text::json) with ordinality l(lock, place)) as exclusive,
  pg_catalog.encode(pg_catalog.timestamptz_send(pg_catalog.now()), 'hex') as began, pg_catalog.current_setting('transaction_isolation') as isolation,
  pg_catalog.current_setting('transaction_read_only') as read_only,
  pg_catalog.current_setting('client_encoding') as encoding, pg_catalog.current_setting('role') as session_role,
  pg_catalog.current_setting('row_security') as row_security, pg_catalog.current_setting('search_path') as search_path,
  session_user::pg_catalog.text as session_owner, pg_catalog.current_schemas(true)::pg_catalog.text as schemas/*[limits*/,
  pg_catalog.set_config('idle_in_transaction_session_timeout', case
    when pg_catalog.current_setting('idle_in_transaction_session_timeout')::interval
      between interval '1 millisecond' and :'limit_ms'::text::float8 * interval '1 millisecond'
    then pg_catalog.current_setting('idle_in_transaction_session_timeout') else :'limit_ms'::text end, true) as idle_limit,
  pg_catalog.set_config('statement_timeout', case
    when pg_catalog.current_setting('statement_timeout')::interval
      between interval '1 millisecond' and :'limit_ms'::text::float8 * interval '1 millisecond'
    then pg_catalog.current_setting('statement_timeout') else :'limit_ms'::text end, true) as statement_limit/*]*/;
