-- Always one row. Its operators are qualified, because it has to find schemas ahead of pg_catalog whose operators or types
-- (`hostile`) Latchkey's statements would use instead of Postgres's own. `lacking` names the privileges without which nothing
-- works; which others a service needs depends on its operations.
with ahead as (
    select n.oid, n.nspname
    from pg_catalog.unnest(pg_catalog.current_schemas(true)) with ordinality s(name, place)
    join pg_catalog.pg_namespace n on n.nspname operator(pg_catalog.=) s.name
    where s.place operator(pg_catalog.<)
      pg_catalog.array_position(pg_catalog.current_schemas(true), 'pg_catalog'::pg_catalog.name)),
  own as (
    select c.oid, c.relname, n.oid as schema_id from pg_catalog.pg_class c
    join pg_catalog.pg_namespace n on n.oid operator(pg_catalog.=) c.relnamespace
    where n.nspname operator(pg_catalog.=) :'schema'::pg_catalog.name
      and c.relname operator(pg_catalog.=) any (array['records', 'leases', 'steps', 'outbox', 'messages', 'early', 'facts',
        'audit', 'settings']::pg_catalog.name[])),
  open as (
    select p.polrelid from pg_catalog.pg_policy p
    where p.polpermissive and p.polcmd operator(pg_catalog.=) '*'::pg_catalog."char"
      and pg_catalog.pg_get_expr(p.polqual, p.polrelid) operator(pg_catalog.=) 'true'::pg_catalog.text
      and coalesce(
        pg_catalog.pg_get_expr(p.polwithcheck, p.polrelid) operator(pg_catalog.=) 'true'::pg_catalog.text, true)
      and exists (select from pg_catalog.unnest(p.polroles) r(id)
        where r.id operator(pg_catalog.=) 0::pg_catalog.oid or pg_catalog.pg_has_role(r.id, 'usage'))
      and not exists (select from pg_catalog.pg_policy q
        where q.polrelid operator(pg_catalog.=) p.polrelid and not q.polpermissive))
select current_user::pg_catalog.text as role_name,
  (select pg_catalog.string_agg(a.nspname::pg_catalog.text, ', ') from ahead a
    where exists (select from pg_catalog.pg_operator o
        where o.oprnamespace operator(pg_catalog.=) a.oid
          and o.oprname operator(pg_catalog.=) any (
            array['=', '<>', '<', '<=', '>', '>=', '+', '-', '*', '/', '||']::pg_catalog.name[])
          and o.oprright operator(pg_catalog.=) any (array[
            pg_catalog.to_regtype('pg_catalog.text')::pg_catalog.oid,
            pg_catalog.to_regtype('pg_catalog.uuid')::pg_catalog.oid,
            pg_catalog.to_regtype('pg_catalog.bytea')::pg_catalog.oid,
            pg_catalog.to_regtype('pg_catalog.json')::pg_catalog.oid,
            pg_catalog.to_regtype('pg_catalog.float8')::pg_catalog.oid,
            pg_catalog.to_regtype('pg_catalog.interval')::pg_catalog.oid,
            pg_catalog.to_regtype('pg_catalog.timestamptz')::pg_catalog.oid]))
      or exists (select from pg_catalog.pg_type t
        where t.typnamespace operator(pg_catalog.=) a.oid
          and t.typname operator(pg_catalog.=) any (
            array['text', 'uuid', 'bytea', 'json', 'float8', 'interval', 'timestamptz']::pg_catalog.name[]))) as hostile,
  (select pg_catalog.string_agg(t.relname::pg_catalog.text, ', ') from own t
    where pg_catalog.row_security_active(t.oid)
      and not exists (select from open where open.polrelid operator(pg_catalog.=) t.oid)) as hidden,
  (select pg_catalog.string_agg(pg_catalog.concat(n.privilege, ' on ', t.relname), ', ')
    from own t
    join (values ('records'::pg_catalog.name, 'select'::pg_catalog.text), ('records'::pg_catalog.name,
        'insert'::pg_catalog.text), ('records'::pg_catalog.name, 'update'::pg_catalog.text),
        ('settings'::pg_catalog.name, 'select'::pg_catalog.text)) n(relname, privilege)
      on n.relname operator(pg_catalog.=) t.relname
    where not (pg_catalog.has_schema_privilege(t.schema_id, 'usage')
      and pg_catalog.has_table_privilege(t.oid, n.privilege))) as lacking;
