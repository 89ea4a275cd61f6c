/** Facts on Postgres: a row for each key and kind, which a later life of the key overwrites. */
import type { SqlRow } from "../../sql/transaction.ts";
import {
  type FactGroup,
  type FactKind,
  type FactSupport,
  firstFactsMax,
  type KeptFacts,
  lastFactsMax,
} from "../facts.ts";
import type { PostgresExecutor } from "./executor.ts";
import { foundRows, numberOf, textOf } from "./rows.ts";
import { commitSettingsOnce, keyIs, onPrimary, type SqlNames, timeOf } from "./sql-parts.ts";
import { template } from "./template.ts";
import { keyValues } from "./values.ts";

export function factStatements(names: SqlNames) {
  return {
    keepFacts: template("keep_facts", keepFacts(names)),
    factsOf: template("facts_of", factsOf(names)),
  };
}

/**
 * The lock keeps a record where it is until its facts are written. A record that another transaction has locked is passed over:
 * waiting for it would hold up everybody who needs one of the other records. Facts are written in the order of their keys, so
 * that two statements never wait for each other.
 */
function keepFacts(names: SqlNames): string {
  const { records, facts } = names;
  return `with ${timeOf(names)},
    given as materialized (
      select g.* from pg_catalog.jsonb_to_recordset(@groups::text::jsonb) g (
        tenant text collate "C", scope text collate "C", key text collate "C", kind text collate "C",
        record_id uuid, count int, facts jsonb)),
    found as materialized (
      select g.*, r.id from given g cross join lateral (
        select r.id from ${records} r
        where r.tenant = g.tenant and r.scope = g.scope and r.key = g.key
          and r.id = coalesce(g.record_id, r.id)
        limit 1 for key share skip locked) r
      order by g.tenant, g.scope, g.key, g.kind),
    stamped as materialized (
      select f.tenant, f.scope, f.key, f.kind, f.id, f.count, (
        select pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
            'at', pg_catalog.floor(extract(epoch from t.at) * 1000 - x.ago_ms), 'what', x.what, 'because', x.because,
            'trace_id', x.trace_id) order by x.n)
        from pg_catalog.jsonb_to_recordset(f.facts) x (n int, ago_ms float8, what text, because text, trace_id text)) as facts
      from found f, t),
    kept as (
      insert into ${facts} as k (tenant, scope, key, kind, record_id, count, facts)
      select s.tenant, s.scope, s.key, s.kind, s.id, s.count, s.facts from stamped s
      order by s.tenant, s.scope, s.key, s.kind
      on conflict (tenant, scope, key, kind) do update set record_id = excluded.record_id,
        count = case when k.record_id = excluded.record_id then k.count else 0 end + excluded.count,
        facts = case when k.record_id = excluded.record_id then ${bounded("k.facts || excluded.facts")} else excluded.facts end
      returning 1)
    select pg_catalog.count(*)::int as kept, ${commitSettingsOnce(names)} from kept`;
}

/** The first ten and the last twenty. */
function bounded(facts: string): string {
  return `(select pg_catalog.jsonb_agg(e.value order by e.place)
          from pg_catalog.jsonb_array_elements(${facts}) with ordinality e (value, place)
          where e.place <= ${firstFactsMax} or e.place > pg_catalog.jsonb_array_length(${facts}) - ${lastFactsMax})`;
}

function factsOf({ facts }: SqlNames): string {
  return onPrimary(`select k.kind, k.count, k.facts::text as facts from ${facts} k
    where ${keyIs("k")} and k.record_id = @id::uuid order by k.kind`);
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
