/** How much waits: one statement, whose work is bounded by the limit and not by the size of the tables. */
import type { SqlRow } from "../../sql/transaction.ts";
import type { Depth, Overview } from "../overview.ts";
import type { PostgresExecutor } from "./executor.ts";
import { foundRows, momentOf, numberOf, textOf } from "./rows.ts";
import { exactly, leaseOfRecord, onPrimary, type SqlNames } from "./sql-parts.ts";
import { template } from "./template.ts";

const nothing: Depth = { count: 0, more: false, oldestAt: null };

export function overviewStatements(names: SqlNames) {
  return { overview: template("overview", overview(names)) };
}

/**
 * Each kind is read in the order of an index, so that a limit is reached without reading the table. Pending records and
 * effects have none by age: of them the oldest is the oldest of those that were counted.
 */
function overview({ records, leases, outbox, messages, clock }: SqlNames): string {
  const limit = "limit @count_max::int + 1";
  const first = (column: string, from: string) =>
    `select ${column} as at from ${from} order by ${column} ${limit}`;
  const inOrderOf = (columns: string, column: string, from: string) =>
    `select ${column} as at from ${from} order by ${columns} ${limit}`;
  const parked = (state: string) =>
    `select r.created_at as at from ${records} r where r.state = '${state}' order by r.created_at, r.id ${limit}`;
  const running = `select (select r.created_at from ${records} r
      where ${leaseOfRecord} and r.state = 'in_progress' limit 1) as at
    from (select * from ${leases} order by rescue_at ${limit}) l`;
  const kinds = {
    pending: inOrderOf("r.operation, r.created_at", "r.created_at", `${records} r where r.state = 'pending'`),
    in_progress: running,
    retryable: parked("retryable"),
    unknown: parked("unknown"),
    overdue: first("l.rescue_at", `${leases} l where l.rescue_at <= (select ${clock})`),
    effects: `(${inOrderOf(
      "o.aggregatetype, o.available_at, o.position",
      "o.created_at",
      `${outbox} o where o.state = 'pending' and not o.ordered`,
    )}) union all (${inOrderOf(
      "o.aggregatetype, o.tenant, o.aggregateid, o.position",
      "o.created_at",
      `${outbox} o where o.ordered and o.state <> 'delivered' and o.state = 'pending'`,
    )})`,
    claimed: inOrderOf("o.claimed_at", "o.created_at", `${outbox} o where o.state = 'claimed'`),
    dead: first("o.created_at", `${outbox} o where o.state = 'dead'`),
    dead_messages: first("m.died_at", `${messages} m where m.state = 'dead'`),
  };
  const rows = Object.entries(kinds).map(
    ([kind, of]) => `select '${kind}' as kind, pg_catalog.count(x.at)::int as found,
        ${exactly("coalesce(pg_catalog.min(x.at), timestamptz 'epoch')")} as oldest
      from (${of}) x`,
  );
  return onPrimary(
    `select ${exactly(`(select ${clock})`)} as now, k.* from (${rows.join("\n    union all ")}) k`,
  );
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
  if (row === undefined) throw new TypeError("The overview came without rows");
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
