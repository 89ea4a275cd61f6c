-- A lower limit of the user's own stays.
select pg_catalog.set_config('lock_timeout', case
    when pg_catalog.current_setting('lock_timeout')::interval
      between interval '1 millisecond' and :'limit_ms'::text::float8 * interval '1 millisecond'
    then pg_catalog.current_setting('lock_timeout') else :'limit_ms'::text end, true) as lock_limit,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning')
    then pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages/*[synced*/,
  case when pg_catalog.current_setting('synchronous_commit') = 'off'
    then pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced/*]*/;
