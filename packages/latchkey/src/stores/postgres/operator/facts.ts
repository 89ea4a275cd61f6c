/** Facts on Postgres: a row for each key and kind, which a later life of the key overwrites. */
import type { SqlRow } from "../../../sql/transaction.ts";
import type { FactGroup, FactKind, FactSupport, KeptFacts } from "../../facts.ts";
import type { PostgresExecutor } from "../executor.ts";
import { sql } from "../sql/texts.ts";
import { foundRows, numberOf, textOf } from "../statements/rows.ts";
import type { SqlNames } from "../statements/sql-parts.ts";
import { statement } from "../statements/statement.ts";
import { keyValues } from "../statements/values.ts";

export function factStatements(names: SqlNames) {
  return {
    keepFacts: statement("keep_facts", sql.keepFacts, names),
    factsOf: statement("facts_of", sql.factsOf, names),
  };
}

export function postgresFacts(
  executor: PostgresExecutor,
  { keepFacts: keep, factsOf: of }: ReturnType<typeof factStatements>,
): FactSupport {
  return {
    async keep(groups) {
      if (groups.length === 0) return;
      await executor.write(keep.bind({ groups: JSON.stringify(groups.map(storedGroup)) }));
    },
    async of(key, recordId) {
      const rows = await executor.read(of.bind({ ...keyValues(key), id: recordId }));
      return foundRows(rows, "kind").map(keptFacts);
    },
  };
}

function storedGroup({ key, recordId, kind, count, facts }: FactGroup) {
  const stored = facts.map(({ agoMs, what, because, traceId }, n) => ({
    n,
    ago_ms: agoMs,
    what,
    because,
    trace_id: traceId,
  }));
  return { ...key, record_id: recordId, kind, count, facts: stored };
}

interface StoredFact {
  readonly at: number;
  readonly what: string;
  readonly because: string | null;
  readonly trace_id: string | null;
}

function keptFacts(row: SqlRow): KeptFacts {
  const stored = JSON.parse(textOf(row, "facts")) as readonly StoredFact[];
  return {
    kind: textOf(row, "kind") as FactKind,
    count: numberOf(row, "count"),
    facts: stored.map(({ at, what, because, trace_id: traceId }) => ({ at, what, because, traceId })),
  };
}
