/** The recent decisions of a process, in memory, for the overview's charts: limited in size, and lost with the process. */
import { type Clock, type LatchkeyEvent, systemPorts } from "latchkey";
import {
  type DecisionName,
  decisionNames,
  type HistoryView,
  type OperationView,
  others,
  type TenantView,
} from "./wire.ts";

export interface History {
  /** For `createLatchkey({ onEvent })`, alone or called from another listener. */
  readonly onEvent: (event: LatchkeyEvent) => void;
  /** The counts since it was created, for at most six hours. */
  view(leases?: ReadonlyMap<string, number>): HistoryView;
}

const minuteMs = 60_000;
const minutesMax = 6 * 60;
const namesMax = 100;
/** Durations stored per operation; older ones are dropped. */
const durationsMax = 1_000;
/** The window for rates and percentiles of operations. */
const recentMinutes = 15;
/** Counts of names for which there is no room. */

interface Bucket {
  readonly minute: number;
  readonly decisions: Record<DecisionName, number>;
}

interface OperationCounts {
  execution: string;
  readonly runs: { readonly at: number; readonly ms: number }[];
}

export interface HistoryOptions {
  /** Default: the system's. */
  readonly clock?: Pick<Clock, "wallMs">;
}

export function createHistory({ clock = systemPorts.clock }: HistoryOptions = {}): History {
  const now = () => clock.wallMs();
  const since = now();
  const buckets: Bucket[] = [];
  const operations = new Map<string, OperationCounts>();
  const tenants = new Map<string, { requests: number; duplicates: number }>();
  const bucketNow = () => {
    const minute = Math.floor(now() / minuteMs);
    const last = buckets.at(-1);
    if (last !== undefined && last.minute >= minute) return last;
    const made = { minute, decisions: noDecisions() };
    buckets.push(made);
    if (buckets.length > minutesMax) buckets.shift();
    return made;
  };
  return {
    onEvent(event) {
      const decision = decisionNames.find((name) => name === event.type);
      if (decision === undefined || !("tenant" in event)) return;
      bucketNow().decisions[decision] += 1;
      const tenant = entry(tenants, event.tenant, () => ({ requests: 0, duplicates: 0 }));
      tenant.requests += 1;
      if (decision !== "executed" && decision !== "expired") tenant.duplicates += 1;
      if (event.type !== "executed") return;
      const { execution } = event;
      const operation = entry(operations, event.operation, () => ({ execution, runs: [] }));
      operation.execution = execution;
      operation.runs.push({ at: now(), ms: event.durationMs });
      if (operation.runs.length > durationsMax) operation.runs.shift();
    },
    view: (leases = new Map()) => ({
      since: new Date(since).toISOString(),
      ...seriesOf(buckets, Math.floor(since / minuteMs), Math.floor(now() / minuteMs)),
      operations: [...operations].map(([name, counts]) => operationView(name, counts, since, now(), leases)),
      tenants: tenantViews(tenants),
    }),
  };
}

function noDecisions(): Record<DecisionName, number> {
  return { executed: 0, replayed: 0, in_progress: 0, key_misuse: 0, expired: 0, unknown: 0 };
}

function entry<T>(map: Map<string, T>, name: string, make: () => T): T {
  const place = map.has(name) || map.size < namesMax ? name : others;
  const known = map.get(place);
  if (known !== undefined) return known;
  const made = make();
  map.set(place, made);
  return made;
}

/** Minutes without a request are zeros; minutes before the process started are missing. */
function seriesOf(buckets: readonly Bucket[], first: number, last: number) {
  const from = Math.max(first, last - minutesMax + 1);
  const known = new Map(buckets.map(({ minute, decisions }) => [minute, decisions]));
  const minutes = Array.from({ length: last - from + 1 }, (_, index) => from + index);
  const series = (name: DecisionName) => minutes.map((minute) => known.get(minute)?.[name] ?? 0);
  return {
    minutes: minutes.map((minute) => minute * 60),
    decisions: {
      executed: series("executed"),
      replayed: series("replayed"),
      in_progress: series("in_progress"),
      key_misuse: series("key_misuse"),
      expired: series("expired"),
      unknown: series("unknown"),
    },
  };
}

function operationView(
  operation: string,
  { execution, runs }: OperationCounts,
  since: number,
  now: number,
  leases: ReadonlyMap<string, number>,
): OperationView {
  const spanMs = Math.max(minuteMs, Math.min(recentMinutes * minuteMs, now - since));
  const recent = runs.filter(({ at }) => at >= now - spanMs);
  const sorted = recent.map(({ ms }) => ms).sort((left, right) => left - right);
  const percentile = (share: number) => sorted[Math.ceil(sorted.length * share) - 1] ?? null;
  return {
    operation,
    execution,
    perMinute: recent.length / (spanMs / minuteMs),
    p50Ms: percentile(0.5),
    p99Ms: percentile(0.99),
    leaseMs: execution === "transaction" ? null : (leases.get(operation) ?? null),
  };
}

function tenantViews(
  tenants: ReadonlyMap<string, { readonly requests: number; readonly duplicates: number }>,
): readonly TenantView[] {
  return [...tenants]
    .map(([tenant, counts]) => ({ tenant, ...counts }))
    .filter(({ duplicates }) => duplicates > 0)
    .sort((left, right) => right.duplicates - left.duplicates)
    .slice(0, 6);
}
