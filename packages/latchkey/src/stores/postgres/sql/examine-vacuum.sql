-- The tables that autovacuum leaves out, and how many rows of each are dead, according to the statistics.
select pg_catalog.current_setting('autovacuum') as autovacuum, pg_catalog.current_setting('track_counts') as track_counts,
  c.relname::text as name,
  coalesce((select not o.option_value::boolean from pg_catalog.pg_options_to_table(c.reloptions) o
    where o.option_name = 'autovacuum_enabled'), false) as off,
  least(pg_catalog.pg_stat_get_live_tuples(c.oid), 2000000000)::int as live,
  least(pg_catalog.pg_stat_get_dead_tuples(c.oid), 2000000000)::int as dead
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = :'schema'::text and c.relkind = 'r'
order by c.relname;
