import { boundedFacts, type FactGroup, type FactSupport, type KeptFacts } from "../facts.ts";
import type { MemoryRows } from "./rows.ts";

export function memoryFacts(rows: MemoryRows, now: () => number): FactSupport {
  return {
    async keep(groups) {
      for (const group of groups) keep(rows, group, now());
    },
    async of(key, recordId) {
      const row = rows.find(key);
      return row?.record.id === recordId ? row.life.facts : [];
    },
  };
}

function keep(rows: MemoryRows, { key, recordId, kind, count, facts }: FactGroup, now: number): void {
  const row = rows.find(key);
  if (row === null || (recordId !== null && row.record.id !== recordId)) return;
  const before = row.life.facts.find((one) => one.kind === kind);
  const added = facts.map(({ agoMs, what, because, traceId }) => ({
    at: now - agoMs,
    what,
    because,
    traceId,
  }));
  const after: KeptFacts = {
    kind,
    count: (before?.count ?? 0) + count,
    facts: boundedFacts([...(before?.facts ?? []), ...added]),
  };
  const others = row.life.facts.filter((one) => one.kind !== kind);
  rows.putFacts(key, [...others, after]);
}
