/** Metrics and traces for OpenTelemetry, through the meter and the API of the user's own SDK. */
import { isLatchkeyError } from "../errors.ts";
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
import { formatTraceparent, parseTraceparent, type TraceContext } from "./traceparent.ts";
import type { SpanStart, TraceSpan, Tracing } from "./tracing.ts";

/** The part of `Meter` in `@opentelemetry/api` 1 that metrics need. */
export interface MetricMeter {
  createCounter(name: string, options: { description: string }): Adds;
  createHistogram(
    name: string,
    options: { description: string; unit: string; advice: { explicitBucketBoundaries: number[] } },
  ): Records;
}

/** The part of `Meter` that gauges need. */
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
  /** How many tenants get their own series; later ones are counted as `(other)`. 0 to 10,000. Default 100. */
  readonly tenantsMax?: number;
}

const optionNames = {
  meter: true,
  tenantsMax: true,
} as const satisfies OptionNames<OpenTelemetryMetricsOptions>;

/**
 * A listener for `createLatchkey({ onEvent })` that updates counters and a histogram of durations (unit `s`). Attributes are
 * `operation`, `effect`, `because`, `kind`, `store`, `service` and a limited number of tenants; keys never appear.
 *
 * @throws {TypeError} for an unknown option, or a meter without the two factories
 * @throws {RangeError} when `tenantsMax` is not a whole number from 0 to 10,000
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
 * Reports how much work waits in the store, and the age of the oldest (unit `s`), whenever the SDK collects. All processes of a
 * service would report the same, so call this in one: the worker's. While the store cannot be read, nothing is reported.
 *
 * @throws {TypeError} for an unknown option, a meter without observable gauges, or a `latchkey` that is not one
 */
export function openTelemetryGauges<Gauge>(options: OpenTelemetryGaugesOptions<Gauge>): void {
  checkOptions("openTelemetryGauges", options, gaugeOptionNames);
  const { meter, latchkey } = options;
  if (typeof meter?.addBatchObservableCallback !== "function") {
    throw new TypeError('meter must be a Meter: metrics.getMeter("latchkey") of @opentelemetry/api');
  }
  if (typeof latchkey?.overview !== "function")
    throw new TypeError("latchkey must be the result of createLatchkey");
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

/** The part of `@opentelemetry/api` 1 that tracing needs: `import * as api from "@opentelemetry/api"`. */
export interface TracingApi<Context, Span extends TracedSpan> {
  readonly ROOT_CONTEXT: Context;
  readonly context: {
    active(): Context;
    with<T>(context: Context, run: () => T): T;
  };
  readonly trace: {
    getTracer(name: string): SpanTracer<Context, Span>;
    setSpan(context: Context, span: Span): Context;
  };
}

/** The part of a tracer that Latchkey uses. */
export interface SpanTracer<Context, Span> {
  startSpan(
    name: string,
    options: {
      readonly kind: number;
      readonly attributes: Record<string, string | number | boolean>;
      readonly links: {
        context: { traceId: string; spanId: string; traceFlags: number; isRemote: boolean };
      }[];
      readonly root: boolean;
    },
    context: Context,
  ): Span;
}

/** The part of a span that Latchkey uses. `addLink` needs version 1.9; without it replays have no link. */
export interface TracedSpan {
  spanContext(): TraceContext;
  setAttributes(attributes: Record<string, string | number | boolean>): unknown;
  setStatus(status: { code: number; message: string }): unknown;
  addLink?(link: {
    context: { traceId: string; spanId: string; traceFlags: number; isRemote: boolean };
  }): unknown;
  end(): void;
}

export interface OpenTelemetryTracingOptions<Context, Span extends TracedSpan> {
  /** `import * as api from "@opentelemetry/api"`. */
  readonly api: TracingApi<Context, Span>;
}

const tracingOptionNames = { api: true } as const satisfies OptionNames<
  OpenTelemetryTracingOptions<unknown, TracedSpan>
>;

/** Values of OpenTelemetry's `SpanKind`. */
const kinds = { internal: 0, consumer: 4 } as const satisfies Record<SpanStart["kind"], number>;
/** `SpanStatusCode.ERROR`. */
const statusError = 2;

/**
 * Spans around attempts, phases, calls, deliveries, look-ups and messages, for `createLatchkey({ tracing })`. Spans that the
 * service creates meanwhile are their children if its SDK has a context manager. A tracer that throws changes no outcome.
 *
 * @throws {TypeError} for an unknown option, or an `api` that is not OpenTelemetry's
 */
export function openTelemetryTracing<Context, Span extends TracedSpan>(
  options: OpenTelemetryTracingOptions<Context, Span>,
): Tracing {
  checkOptions("openTelemetryTracing", options, tracingOptionNames);
  const { api } = options;
  const isApi =
    typeof api?.trace?.getTracer === "function" &&
    typeof api.trace.setSpan === "function" &&
    typeof api.context?.with === "function" &&
    typeof api.context.active === "function" &&
    api.ROOT_CONTEXT !== undefined;
  if (!isApi) {
    throw new TypeError('openTelemetryTracing: api must be `import * as api from "@opentelemetry/api"`');
  }
  return {
    async inSpan(start, work) {
      const opened = quietly(() => open(api, start)) ?? null;
      if (opened === null) return work(unseen);
      const span = traceSpan(opened.span);
      try {
        return await once(api, opened.context, () => work(span));
      } catch (error) {
        span.fail(failureOf(error));
        throw error;
      } finally {
        quietly(() => opened.span.end());
      }
    },
  };
}

function open<Context, Span extends TracedSpan>(
  { trace, context, ROOT_CONTEXT }: TracingApi<Context, Span>,
  { name, kind, attributes, links = [], root = false }: SpanStart,
): { readonly span: Span; readonly context: Context } {
  const around = root ? ROOT_CONTEXT : context.active();
  const options = { kind: kinds[kind], attributes: { ...attributes }, links: links.flatMap(linkOf), root };
  // Read each time: an SDK may be registered later.
  const span = trace.getTracer("latchkey").startSpan(name, options, around);
  return { span, context: trace.setSpan(around, span) };
}

/** Runs the work exactly once, even if the context manager throws before or after running it. */
function once<Context, Span extends TracedSpan, T>(
  { context }: TracingApi<Context, Span>,
  inside: Context,
  work: () => Promise<T>,
): Promise<T> {
  let running: Promise<T> | null = null;
  const run = () => {
    running ??= work();
    return running;
  };
  quietly(() =>
    context.with(inside, () => {
      void run();
    }),
  );
  return run();
}

function linkOf(traceparent: unknown) {
  const context = parseTraceparent(traceparent);
  return context === null ? [] : [{ context: { ...context, isRemote: true } }];
}

function traceSpan(span: TracedSpan): TraceSpan {
  return {
    traceparent: quietly(() => formatTraceparent(span.spanContext())) ?? null,
    set: (attributes) => void quietly(() => span.setAttributes({ ...attributes })),
    link(traceparent) {
      for (const link of linkOf(traceparent)) quietly(() => span.addLink?.(link));
    },
    fail: (code) =>
      void quietly(() => {
        span.setAttributes({ "error.type": code });
        span.setStatus({ code: statusError, message: code });
      }),
  };
}

/** Used when the tracer returns no span. */
const unseen: TraceSpan = { traceparent: null, set() {}, link() {}, fail() {} };

function failureOf(error: unknown): string {
  return isLatchkeyError(error) ? error.code : "handler-threw";
}

function quietly<T>(ask: () => T): T | undefined {
  try {
    return ask();
  } catch {
    return undefined;
  }
}
