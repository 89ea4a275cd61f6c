/** Checks a role and its sessions for settings under which Latchkey's statements would read or write other things than intended. */
import { LatchkeyError } from "../../errors.ts";
import type { SqlRow } from "../../sql/transaction.ts";
import { nullableText, textOf } from "./rows.ts";

const tables = ["records", "leases", "steps", "outbox", "messages", "early", "facts", "audit", "settings"];
/** Nothing works without these privileges; which others a service needs depends on its operations. */
const needs = { records: ["select", "insert", "update"], settings: ["select"] };
const operators = ["=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "||"];
const types = ["text", "uuid", "bytea", "json", "float8", "timestamptz"];

const list = (names: readonly string[]) => names.map((name) => `'${name}'`).join(", ");

/** Always one row. Its own operators are qualified, because it has to find operators that are not Postgres's. */
export function suitability(schema: string): string {
  const is = "operator(pg_catalog.=)";
  const operands = types
    .map((type) => `pg_catalog.to_regtype('pg_catalog.${type}')::pg_catalog.oid`)
    .join(", ");
  const lacking = Object.entries(needs).flatMap(([table, rights]) =>
    rights.map((right) => `('${table}'::pg_catalog.name, '${right}'::pg_catalog.text)`),
  );
  return `with
    ahead as (
      select n.oid, n.nspname
      from pg_catalog.unnest(pg_catalog.current_schemas(true)) with ordinality s(name, place)
      join pg_catalog.pg_namespace n on n.nspname ${is} s.name
      where s.place operator(pg_catalog.<)
        pg_catalog.array_position(pg_catalog.current_schemas(true), 'pg_catalog'::pg_catalog.name)),
    own as (
      select c.oid, c.relname, n.oid as schema_id from pg_catalog.pg_class c
      join pg_catalog.pg_namespace n on n.oid ${is} c.relnamespace
      where n.nspname ${is} '${schema}'::pg_catalog.name
        and c.relname operator(pg_catalog.=) any (array[${list(tables)}]::pg_catalog.name[])),
    open as (
      select p.polrelid from pg_catalog.pg_policy p
      where p.polpermissive and p.polcmd ${is} '*'::pg_catalog."char"
        and pg_catalog.pg_get_expr(p.polqual, p.polrelid) ${is} 'true'::pg_catalog.text
        and coalesce(pg_catalog.pg_get_expr(p.polwithcheck, p.polrelid) ${is} 'true'::pg_catalog.text, true)
        and exists (select from pg_catalog.unnest(p.polroles) r(id)
          where r.id ${is} 0::pg_catalog.oid or pg_catalog.pg_has_role(r.id, 'usage'))
        and not exists (select from pg_catalog.pg_policy q where q.polrelid ${is} p.polrelid and not q.polpermissive))
    select current_user::pg_catalog.text as role_name,
      (select pg_catalog.string_agg(a.nspname::pg_catalog.text, ', ') from ahead a where exists (
        select from pg_catalog.pg_operator o where o.oprnamespace ${is} a.oid
          and o.oprname ${is} any (array[${list(operators)}]::pg_catalog.name[])
          and o.oprright ${is} any (array[${operands}]))
        or exists (select from pg_catalog.pg_type t where t.typnamespace ${is} a.oid
          and t.typname ${is} any (array[${list(types)}]::pg_catalog.name[]))) as hostile,
      (select pg_catalog.string_agg(t.relname::pg_catalog.text, ', ') from own t
        where pg_catalog.row_security_active(t.oid)
          and not exists (select from open where open.polrelid ${is} t.oid)) as hidden,
      (select pg_catalog.string_agg(pg_catalog.concat(n.privilege, ' on ', t.relname), ', ')
        from own t join (values ${lacking.join(", ")}) n(relname, privilege) on n.relname ${is} t.relname
        where not (pg_catalog.has_schema_privilege(t.schema_id, 'usage')
          and pg_catalog.has_table_privilege(t.oid, n.privilege))) as lacking`;
}

/** @throws {LatchkeyError} `store-unsuitable`, naming what to change */
export function checkSuitability(schema: string, row: SqlRow): void {
  const role = textOf(row, "role_name");
  const hostile = nullableText(row, "hostile");
  if (hostile !== null) {
    const because = "which has operators or types that go by the names of Postgres's own";
    throw unsuitable(
      `The search_path looks in ${hostile} before pg_catalog, ${because}. Take pg_catalog out of it`,
    );
  }
  const hidden = nullableText(row, "hidden");
  if (hidden !== null) {
    const remedy =
      "Give it a policy `for all using (true)`, disable row-level security there, or use the tables' owner";
    throw unsuitable(
      `Row-level security hides rows of schema ${schema} (${hidden}) from role ${role}. ${remedy}`,
    );
  }
  const lacking = nullableText(row, "lacking");
  if (lacking !== null)
    throw unsuitable(`Role ${role} lacks privileges in schema ${schema}: ${lacking}. Grant them`);
}

function unsuitable(message: string): LatchkeyError {
  return new LatchkeyError("store-unsuitable", { message });
}
