/** Counters and durations of this process, in Prometheus' text format. */
import { checkOptions, type OptionNames } from "../known-options.ts";
import type { Overview } from "../stores/overview.ts";
import type { EventListener } from "./events.ts";
import {
  type Attributes,
  ageMetric,
  boundedTenants,
  checkTenantsMax,
  counters,
  countsOf,
  depthMetric,
  durationMetric,
  requestOf,
  tenantMetric,
  waitingOf,
} from "./metric-table.ts";

export interface MetricsOptions {
  /** How many tenants get their own series; later ones are counted as `(other)`. 0 to 10,000. Default 100. */
  readonly tenantsMax?: number;
}

const optionNames = { tenantsMax: true } as const satisfies OptionNames<MetricsOptions>;

export interface Metrics {
  /** For `createLatchkey({ onEvent })`. */
  readonly onEvent: EventListener;
  /**
   * All series, in Prometheus' text exposition format 0.0.4. Serve it as `text/plain; version=0.0.4`.
   *
   * @param overview the result of `latchkey.overview()`, for the gauges of waiting work. Default: no gauges.
   */
  text(overview?: Overview): string;
}

interface Histogram {
  readonly buckets: number[];
  sum: number;
  count: number;
}

/**
 * Counts events. Series have the names of the OpenTelemetry metrics with `_` for `.`, `_total` for `.count`; keys, record
 * ids and errors never appear in them.
 *
 * @throws {TypeError} for an unknown option
 * @throws {RangeError} when `tenantsMax` is not a whole number from 0 to 10,000
 */
export function createMetrics(options: MetricsOptions = {}): Metrics {
  checkOptions("createMetrics", options, optionNames);
  const nameTenant = boundedTenants(checkTenantsMax(options.tenantsMax ?? 100));
  const series = new Map<string, Map<string, number>>(Object.keys(counters).map((name) => [name, new Map()]));
  series.set(tenantMetric.name, new Map());
  const durations = new Map<string, Histogram>();
  const add = (metric: string, attributes: Attributes, by: number) => {
    const of = series.get(metric);
    const labels = labelsOf(attributes);
    of?.set(labels, (of.get(labels) ?? 0) + by);
  };
  return {
    onEvent(event) {
      for (const { metric, by, attributes } of countsOf(event)) add(metric, attributes, by);
      const request = requestOf(event);
      if (request !== null) {
        const { tenant, duplicate } = request;
        add(tenantMetric.name, { tenant: nameTenant(tenant), duplicate: String(duplicate) }, 1);
      }
      if (event.type === "executed") observe(durations, event.operation, event.durationMs / 1_000);
    },
    text(overview) {
      const gauges = overview === undefined ? [] : textOfGauges(overview);
      return `${[...textOfCounters(series), ...textOfDurations(durations), ...gauges].join("\n")}\n`;
    },
  };
}

function observe(durations: Map<string, Histogram>, operation: string, seconds: number): void {
  const labels = labelsOf({ operation });
  const found = durations.get(labels) ?? { buckets: durationMetric.bounds.map(() => 0), sum: 0, count: 0 };
  durations.set(labels, found);
  found.sum += seconds;
  found.count += 1;
  for (const [index, bound] of durationMetric.bounds.entries()) {
    if (seconds <= bound) found.buckets[index] = (found.buckets[index] ?? 0) + 1;
  }
}

function* textOfCounters(series: ReadonlyMap<string, ReadonlyMap<string, number>>): Iterable<string> {
  const helps: Readonly<Record<string, string>> = { ...counters, [tenantMetric.name]: tenantMetric.help };
  for (const [name, values] of series) {
    const shown = `${seriesName(name.replace(/\.count$/u, ""))}_total`;
    yield `# HELP ${shown} ${helps[name]}`;
    yield `# TYPE ${shown} counter`;
    for (const [labels, value] of values) yield `${shown}{${labels}} ${value}`;
  }
}

function* textOfDurations(durations: ReadonlyMap<string, Histogram>): Iterable<string> {
  const name = `${seriesName(durationMetric.name)}_seconds`;
  yield `# HELP ${name} ${durationMetric.help}`;
  yield `# TYPE ${name} histogram`;
  for (const [labels, { buckets, sum, count }] of durations) {
    for (const [index, bound] of durationMetric.bounds.entries()) {
      yield `${name}_bucket{${labels},le="${bound}"} ${buckets[index]}`;
    }
    yield `${name}_bucket{${labels},le="+Inf"} ${count}`;
    yield `${name}_sum{${labels}} ${sum}`;
    yield `${name}_count{${labels}} ${count}`;
  }
}

function* textOfGauges(overview: Overview): Iterable<string> {
  const waiting = waitingOf(overview);
  const depth = seriesName(depthMetric.name);
  yield `# HELP ${depth} ${depthMetric.help}`;
  yield `# TYPE ${depth} gauge`;
  for (const { kind, count } of waiting) yield `${depth}{${labelsOf({ kind })}} ${count}`;
  const age = `${seriesName(ageMetric.name)}_seconds`;
  yield `# HELP ${age} ${ageMetric.help}`;
  yield `# TYPE ${age} gauge`;
  for (const { kind, ageSeconds } of waiting) yield `${age}{${labelsOf({ kind })}} ${ageSeconds}`;
}

function seriesName(metric: string): string {
  return metric.replaceAll(".", "_");
}

function labelsOf(attributes: Attributes): string {
  return Object.entries(attributes)
    .map(([name, value]) => `${name}="${escaped(value)}"`)
    .join(",");
}

/** The text format requires these three escapes. */
function escaped(value: string): string {
  return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}
