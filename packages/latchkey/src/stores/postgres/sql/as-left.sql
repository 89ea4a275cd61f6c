-- Restores the handler's settings for the user's own deferred triggers, which run at COMMIT.
select case when session_user::pg_catalog.text <> pg_catalog.current_setting('latchkey.left_session_authorization') then pg_catalog.set_config('session_authorization', pg_catalog.current_setting('latchkey.left_session_authorization'), true) end as left_session_authorization,
  pg_catalog.set_config('role', pg_catalog.current_setting('latchkey.left_role'), true) as left_role,
  pg_catalog.set_config('row_security', pg_catalog.current_setting('latchkey.left_row_security'), true) as left_row_security,
  pg_catalog.set_config('search_path', pg_catalog.current_setting('latchkey.left_search_path'), true) as left_search_path,
  pg_catalog.set_config('client_encoding', pg_catalog.current_setting('latchkey.left_client_encoding'), true) as left_client_encoding;
