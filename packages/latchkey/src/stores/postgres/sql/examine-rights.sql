-- Always one row. A schema that does not exist has no tables, so no privilege is reported as missing.
with needs(name, privilege) as (values
    ('records', 'select'), ('records', 'insert'), ('records', 'update'), ('records', 'delete'),
    ('leases', 'select'), ('leases', 'insert'), ('leases', 'update'), ('leases', 'delete'),
    ('steps', 'select'), ('steps', 'insert'), ('steps', 'update'), ('steps', 'delete'),
    ('outbox', 'select'), ('outbox', 'insert'), ('outbox', 'update'), ('outbox', 'delete'),
    ('messages', 'select'), ('messages', 'insert'), ('messages', 'update'), ('messages', 'delete'),
    ('early', 'select'), ('early', 'insert'), ('early', 'update'), ('early', 'delete'),
    ('facts', 'select'), ('facts', 'insert'), ('facts', 'update'), ('facts', 'delete'),
    ('audit', 'select'), ('audit', 'insert'), ('audit', 'update'), ('audit', 'delete'),
    ('settings', 'select')),
  place as (select n.oid from pg_catalog.pg_namespace n where n.nspname = :'schema'::text),
  own as (select c.oid, c.relname::text as name from pg_catalog.pg_class c
    where c.relnamespace = (select oid from place) and c.relkind in ('r', 'p'))
select current_user::text as role_name,
  exists (select from place) and not coalesce(
    (select pg_catalog.has_schema_privilege(p.oid, 'usage') from place p), false) as closed,
  (select pg_catalog.string_agg(t.name, ', ' order by t.name) from (select distinct n.name from needs n) t
    where not exists (select from own where own.name = t.name)) as missing,
  (select pg_catalog.string_agg(pg_catalog.concat(n.privilege, ' on ', n.name), ', ' order by n.name, n.privilege)
    from needs n join own on own.name = n.name
    where not pg_catalog.has_table_privilege(own.oid, n.privilege)) as lacking;
