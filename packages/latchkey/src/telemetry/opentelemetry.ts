/** Metrics for OpenTelemetry, on the meter that the user's own SDK gives. */
import { checkOptions, type OptionNames } from "../known-options.ts";
import type { Overview } from "../stores/overview.ts";
import type { EventListener } from "./events.ts";
import {
  type Attributes,
  ageMetric,
  boundedTenants,
  type CounterName,
  checkTenantsMax,
  counters,
  countsOf,
  depthMetric,
  durationMetric,
  requestOf,
  tenantMetric,
  waitingOf,
} from "./metric-table.ts";

/** What is needed of `Meter` of `@opentelemetry/api` 1. */
export interface MetricMeter {
  createCounter(name: string, options: { description: string }): Adds;
  createHistogram(
    name: string,
    options: { description: string; unit: string; advice: { explicitBucketBoundaries: number[] } },
  ): Records;
}

/** What is needed besides for gauges. */
export interface GaugeMeter<Gauge> {
  createObservableGauge(name: string, options: { description: string; unit?: string }): Gauge;
  addBatchObservableCallback(
    callback: (result: {
      observe(gauge: Gauge, value: number, attributes: Attributes): void;
    }) => Promise<void>,
    gauges: Gauge[],
  ): void;
}

interface Adds {
  add(value: number, attributes: Attributes): void;
}

interface Records {
  record(value: number, attributes: Attributes): void;
}

export interface OpenTelemetryMetricsOptions {
  /** `metrics.getMeter("latchkey")` of `@opentelemetry/api`. */
  readonly meter: MetricMeter;
  /** How many tenants have a series of their own; later ones are counted as `(other)`. 0 to 10 000. Default 100. */
  readonly tenantsMax?: number;
}

const optionNames = {
  meter: true,
  tenantsMax: true,
} as const satisfies OptionNames<OpenTelemetryMetricsOptions>;

/**
 * A listener for `createLatchkey({ onEvent })` that moves counters and a histogram of durations (unit `s`). Attributes are
 * `operation`, `effect`, `because`, `kind`, `store`, `service` and, bounded, `tenant`; keys never appear.
 *
 * @throws {TypeError} for an unknown option, or a meter without the two factories
 * @throws {RangeError} when `tenantsMax` is no whole number from 0 to 10 000
 */
export function openTelemetryMetrics(options: OpenTelemetryMetricsOptions): EventListener {
  checkOptions("openTelemetryMetrics", options, optionNames);
  const { meter } = options;
  if (typeof meter?.createCounter !== "function" || typeof meter.createHistogram !== "function") {
    throw new TypeError('meter must be a Meter: metrics.getMeter("latchkey") of @opentelemetry/api');
  }
  const nameTenant = boundedTenants(checkTenantsMax(options.tenantsMax ?? 100));
  const instruments = new Map<string, Adds>();
  for (const name of Object.keys(counters) as CounterName[]) {
    instruments.set(name, meter.createCounter(name, { description: counters[name] }));
  }
  const requests = meter.createCounter(tenantMetric.name, { description: tenantMetric.help });
  const durations = meter.createHistogram(durationMetric.name, {
    description: durationMetric.help,
    unit: "s",
    advice: { explicitBucketBoundaries: [...durationMetric.bounds] },
  });
  return (event) => {
    for (const { metric, by, attributes } of countsOf(event)) instruments.get(metric)?.add(by, attributes);
    const request = requestOf(event);
    if (request !== null) {
      requests.add(1, { tenant: nameTenant(request.tenant), duplicate: String(request.duplicate) });
    }
    if (event.type === "executed") durations.record(event.durationMs / 1_000, { operation: event.operation });
  };
}

/** The part of a latchkey that gauges need. */
export interface OverviewSource {
  overview(): Promise<Overview>;
}

export interface OpenTelemetryGaugesOptions<Gauge> {
  /** `metrics.getMeter("latchkey")` of `@opentelemetry/api`. */
  readonly meter: GaugeMeter<Gauge>;
  readonly latchkey: OverviewSource;
}

const gaugeOptionNames = {
  meter: true,
  latchkey: true,
} as const satisfies OptionNames<OpenTelemetryGaugesOptions<never>>;

/**
 * Reports what waits in the store, and for how long the oldest has (unit `s`), whenever the SDK collects. All processes of
 * a service would report the same, so call this in one: the worker's. A collection that cannot ask the store reports
 * nothing.
 *
 * @throws {TypeError} for an unknown option, a meter without observable gauges, or something that is no latchkey
 */
export function openTelemetryGauges<Gauge>(options: OpenTelemetryGaugesOptions<Gauge>): void {
  checkOptions("openTelemetryGauges", options, gaugeOptionNames);
  const { meter, latchkey } = options;
  if (typeof meter?.addBatchObservableCallback !== "function") {
    throw new TypeError('meter must be a Meter: metrics.getMeter("latchkey") of @opentelemetry/api');
  }
  if (typeof latchkey?.overview !== "function")
    throw new TypeError("latchkey must be what createLatchkey returns");
  const depth = meter.createObservableGauge(depthMetric.name, { description: depthMetric.help });
  const age = meter.createObservableGauge(ageMetric.name, { description: ageMetric.help, unit: "s" });
  meter.addBatchObservableCallback(
    async (result) => {
      for (const { kind, count, ageSeconds } of waitingOf(await latchkey.overview())) {
        result.observe(depth, count, { kind });
        result.observe(age, ageSeconds, { kind });
      }
    },
    [depth, age],
  );
}
