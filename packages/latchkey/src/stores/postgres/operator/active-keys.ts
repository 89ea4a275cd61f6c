/** How many records tenants have, counted up to the limit. */
import type { ActiveKeys } from "../../active-keys.ts";
import { checkStorable } from "../../storable.ts";
import type { PostgresExecutor } from "../executor.ts";
import { sql } from "../sql/texts.ts";
import { momentOf, nullableMoment, numberOf, textOf } from "../statements/rows.ts";
import type { SqlNames } from "../statements/sql-parts.ts";
import { statement } from "../statements/statement.ts";

export function activeKeyStatements(names: SqlNames) {
  return { countActiveKeys: statement("count_active_keys", sql.countActiveKeys, names) };
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
