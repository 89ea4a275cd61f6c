/** The queries of `latchkey doctor` on a Postgres server. None of them writes. */
import { exactly, type SqlNames } from "./sql-parts.ts";
import { suitability } from "./suitability.ts";
import { template } from "./template.ts";

const all = ["select", "insert", "update", "delete"];
/** The privileges that the store's statements need on each table. */
const rights: Readonly<Record<string, readonly string[]>> = {
  records: all,
  leases: all,
  steps: all,
  outbox: all,
  messages: all,
  early: all,
  facts: all,
  audit: all,
  settings: ["select"],
};

export function examineStatements(schema: string, names: SqlNames) {
  return {
    server: template("examine_server", server),
    clock: template("examine_clock", `select ${exactly(`(select ${names.clock})`)} as now`),
    rights: template("examine_rights", rightsIn(schema)),
    suitability: template("suitability", suitability(schema)),
    version: template(
      "examine_version",
      `select s.value from ${names.settings} s where s.name = 'schema_version'`,
    ),
    vacuum: template("examine_vacuum", vacuum(schema)),
    durations: template("examine_durations", durations(names)),
  };
}

const setting = (name: string) => `pg_catalog.current_setting('${name}')`;

const server = `select ${setting("server_version")} as version, pg_catalog.current_database()::text as database,
    current_user::text as role_name, ${setting("default_transaction_isolation")} as isolation,
    ${setting("default_transaction_read_only")} as read_only, pg_catalog.pg_is_in_recovery() as standby`;

/** Always one row. A schema that does not exist has no tables, so no privilege is reported as missing. */
function rightsIn(schema: string): string {
  const tables = Object.keys(rights).map((table) => `('${table}')`);
  const needs = Object.entries(rights).flatMap(([table, needed]) =>
    needed.map((right) => `('${table}', '${right}')`),
  );
  return `with
    place as (select n.oid from pg_catalog.pg_namespace n where n.nspname = '${schema}'),
    own as (select c.oid, c.relname::text as name from pg_catalog.pg_class c
      where c.relnamespace = (select oid from place) and c.relkind in ('r', 'p'))
    select current_user::text as role_name,
      exists (select from place) and not coalesce(
        (select pg_catalog.has_schema_privilege(p.oid, 'usage') from place p), false) as closed,
      (select pg_catalog.string_agg(t.name, ', ' order by t.name) from (values ${tables.join(", ")}) t(name)
        where not exists (select from own where own.name = t.name)) as missing,
      (select pg_catalog.string_agg(pg_catalog.concat(n.privilege, ' on ', n.name), ', ' order by n.name, n.privilege)
        from (values ${needs.join(", ")}) n(name, privilege) join own on own.name = n.name
        where not pg_catalog.has_table_privilege(own.oid, n.privilege)) as lacking`;
}

/** The tables that autovacuum leaves out, and how many rows of each are dead, according to the statistics. */
function vacuum(schema: string): string {
  return `select ${setting("autovacuum")} as autovacuum, ${setting("track_counts")} as track_counts,
      c.relname::text as name,
      coalesce((select not o.option_value::boolean from pg_catalog.pg_options_to_table(c.reloptions) o
        where o.option_name = 'autovacuum_enabled'), false) as off,
      least(pg_catalog.pg_stat_get_live_tuples(c.oid), 2000000000)::int as live,
      least(pg_catalog.pg_stat_get_dead_tuples(c.oid), 2000000000)::int as dead
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname = '${schema}' and c.relkind = 'r'
    order by c.relname`;
}

/**
 * How long first attempts took, for a bounded number of records, those that are forgotten last, in the order of an index.
 * Without records that an operator or a webhook settled, because those did not end with their attempt.
 */
function durations({ records, audit }: SqlNames): string {
  return `select pg_catalog.count(*)::int as attempts,
      coalesce(pg_catalog.percentile_cont(0.99) within group (
        order by (extract(epoch from x.finished_at - x.created_at) * 1000)::float8), 0)::float8 as p99_ms
    from (select * from ${records} r where r.forget_at is not null order by r.forget_at desc limit 50000) x
    where x.operation = @operation::text and x.attempt = 1 and x.state in ('completed', 'failed')
      and not exists (select from ${audit} a
        where a.tenant = x.tenant and a.scope = x.scope and a.key = x.key and a.record_id = x.id)`;
}
