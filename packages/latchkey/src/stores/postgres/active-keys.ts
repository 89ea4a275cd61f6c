/** How many records tenants have: bounded by the limit, and read from the table only where the limit is reached. */
import type { ActiveKeys } from "../active-keys.ts";
import type { PostgresExecutor } from "./executor.ts";
import { momentOf, nullableMoment, numberOf, textOf } from "./rows.ts";
import { exactly, type SqlNames } from "./sql-parts.ts";
import { template } from "./template.ts";
import { checkStorable } from "./values.ts";

export function activeKeyStatements(names: SqlNames) {
  return { countActiveKeys: template("count_active_keys", countActiveKeys(names)) };
}

/**
 * ORDER BY keeps the planner on the primary key also for a tenant that has most of the table. The condition on `found` is
 * inside, where it keeps the second look from being taken at all.
 */
function countActiveKeys({ records, clock }: SqlNames): string {
  const inOrder = "order by r.scope, r.key limit @count_max::int";
  return `select x.tenant, ${exactly(`(select ${clock})`)} as now, coalesce(live.count, found.count) as count,
      ${exactly("live.first")} as first
    from pg_catalog.jsonb_array_elements_text(@tenants::text::jsonb) x(tenant)
    cross join lateral (
      select pg_catalog.count(*)::int as count
      from (select 1 from ${records} r where r.tenant = x.tenant ${inOrder}) r) found
    left join lateral (
      select pg_catalog.count(*)::int as count, pg_catalog.min(r.forget_at) as first
      from (
        select r.forget_at from ${records} r
        where r.tenant = x.tenant and found.count >= @count_max::int
          and (r.forget_at is null or r.forget_at > (select ${clock}))
        ${inOrder}) r
      having found.count >= @count_max::int) live on true`;
}

export async function countKeysOf(
  executor: PostgresExecutor,
  { countActiveKeys: statement }: ReturnType<typeof activeKeyStatements>,
  tenants: readonly string[],
  countMax: number,
): Promise<readonly ActiveKeys[]> {
  for (const tenant of tenants) checkStorable("tenant", tenant);
  const values = { tenants: JSON.stringify(tenants), count_max: countMax };
  const rows = await executor.read(statement.bind(values));
  return rows.map((row) => {
    const count = numberOf(row, "count");
    const first = count < countMax ? null : nullableMoment(row, "first");
    return {
      tenant: textOf(row, "tenant"),
      count,
      roomAfterMs: first === null ? null : first - momentOf(row, "now"),
    };
  });
}
