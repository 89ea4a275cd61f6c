-- A WAL record without content, which is replicated after everything written before it. Its COMMIT waits whatever the session's
-- settings, because only a store whose own COMMITs wait can have seen a cancelled wait.
select pg_catalog.pg_logical_emit_message(true, 'latchkey', '')::text as lsn,
  case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning')
    then pg_catalog.set_config('client_min_messages', 'warning', true) end as commit_messages,
  case when pg_catalog.current_setting('synchronous_commit') = 'off'
    then pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced;
