-- Raises 22012 if texts would be stored as other texts, before the next statement has run.
select pg_catalog.current_setting('default_transaction_isolation') as isolation,
  1 / (pg_catalog.current_setting('client_encoding') operator(pg_catalog.=) 'UTF8')::int as encoded;
