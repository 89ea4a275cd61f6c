-- Sets the session as the opening statement found it, and keeps the handler's settings for `as-left`. Expressions of a SELECT
-- without FROM are evaluated from left to right: each value is kept before it is replaced. The order of the settings matters.
-- The session authorization is assigned only if it was changed, which only a superuser's session can do.
select pg_catalog.set_config('latchkey.left_session_authorization', session_user::pg_catalog.text, true) as kept_session_authorization,
  pg_catalog.set_config('latchkey.left_role', pg_catalog.current_setting('role'), true) as kept_role,
  pg_catalog.set_config('latchkey.left_row_security', pg_catalog.current_setting('row_security'), true) as kept_row_security,
  pg_catalog.set_config('latchkey.left_search_path', pg_catalog.current_setting('search_path'), true) as kept_search_path,
  pg_catalog.set_config('latchkey.left_client_encoding', pg_catalog.current_setting('client_encoding'), true) as kept_client_encoding,
  case when session_user::pg_catalog.text <> :'session_owner'::pg_catalog.text then pg_catalog.set_config('session_authorization', :'session_owner'::pg_catalog.text, true) end as own_session_authorization,
  pg_catalog.set_config('role', :'session_role'::pg_catalog.text, true) as own_role,
  pg_catalog.set_config('row_security', :'row_security'::pg_catalog.text, true) as own_row_security,
  pg_catalog.set_config('search_path', :'search_path'::pg_catalog.text, true) as own_search_path,
  pg_catalog.set_config('client_encoding', :'encoding'::pg_catalog.text, true) as own_client_encoding;
