-- Whether a transaction holds the advisory lock of a key. Reads pg_locks and never requests the lock, so it never waits.
select exists (
  select 1
  from pg_catalog.pg_locks l
  where l.locktype = 'advisory' and l.granted and l.objsubid = 1
    and l.database =
    (select d.oid from pg_catalog.pg_database d where d.datname = pg_catalog.current_database())
    and l.classid = ((:'lock'::text::bigint >> 32) & 4294967295)::oid
    and l.objid = (:'lock'::text::bigint & 4294967295)::oid) as running;
