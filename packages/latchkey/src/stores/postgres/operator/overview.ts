/** How much waits: one statement, whose work is bounded by the limit and not by the size of the tables. */
import type { SqlRow } from "../../../sql/transaction.ts";
import type { Depth, Overview } from "../../overview.ts";
import type { PostgresExecutor } from "../executor.ts";
import { sql } from "../sql/texts.ts";
import { foundRows, momentOf, numberOf, textOf } from "../statements/rows.ts";
import type { SqlNames } from "../statements/sql-parts.ts";
import { statement } from "../statements/statement.ts";

const nothing: Depth = { count: 0, more: false, oldestAt: null };

export function overviewStatements(names: SqlNames) {
  return { overview: statement("overview", sql.overview, names) };
}

export async function readOverview(
  executor: PostgresExecutor,
  { overview: statement }: ReturnType<typeof overviewStatements>,
  countMax: number,
): Promise<Overview> {
  const rows = foundRows(await executor.read(statement.bind({ count_max: countMax })), "kind");
  const depths = new Map(rows.map((row) => [textOf(row, "kind"), depthOf(row, countMax)]));
  const depth = (kind: string) => depths.get(kind) ?? nothing;
  const [row] = rows;
  if (row === undefined) throw new TypeError("The overview was returned without rows");
  return {
    now: momentOf(row, "now"),
    records: {
      pending: depth("pending"),
      inProgress: depth("in_progress"),
      retryable: depth("retryable"),
      unknown: depth("unknown"),
    },
    overdueLeases: depth("overdue"),
    effects: { pending: depth("effects"), claimed: depth("claimed"), dead: depth("dead") },
    messages: { dead: depth("dead_messages") },
  };
}

function depthOf(row: SqlRow, countMax: number): Depth {
  const found = numberOf(row, "found");
  if (found === 0) return nothing;
  return { count: Math.min(found, countMax), more: found > countMax, oldestAt: momentOf(row, "oldest") };
}
