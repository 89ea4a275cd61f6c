/** Spans for OpenTelemetry, on the tracer that the user's own SDK gives. */
import { isLatchkeyError } from "../errors.ts";
import { checkOptions, type OptionNames } from "../known-options.ts";
import { formatTraceparent, parseTraceparent, type TraceContext } from "./traceparent.ts";
import type { SpanAttributes, SpanStart, TraceSpan, Tracing } from "./tracing.ts";

/** What is needed of `@opentelemetry/api` 1: `import * as api from "@opentelemetry/api"`. */
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

/** What is needed of a tracer. */
export interface SpanTracer<Context, Span> {
  startSpan(
    name: string,
    options: {
      readonly kind: number;
      readonly attributes: Record<string, string | number | boolean>;
      readonly links: { context: { traceId: string; spanId: string; traceFlags: number; isRemote: boolean } }[];
      readonly root: boolean;
    },
    context: Context,
  ): Span;
}

/** What is needed of a span. `addLink` is in 1.9 and later; without it replays have no link. */
export interface TracedSpan {
  spanContext(): TraceContext;
  setAttributes(attributes: Record<string, string | number | boolean>): unknown;
  setStatus(status: { code: number; message: string }): unknown;
  addLink?(link: { context: { traceId: string; spanId: string; traceFlags: number; isRemote: boolean } }): unknown;
  end(): void;
}

export interface OpenTelemetryTracingOptions<Context, Span extends TracedSpan> {
  /** `import * as api from "@opentelemetry/api"`. */
  readonly api: TracingApi<Context, Span>;
}

const optionNames = { api: true } as const satisfies OptionNames<
  OpenTelemetryTracingOptions<unknown, TracedSpan>
>;

/** As OpenTelemetry's `SpanKind` has them. */
const kinds = { internal: 0, consumer: 4 } as const satisfies Record<SpanStart["kind"], number>;
/** `SpanStatusCode.ERROR`. */
const statusError = 2;

/**
 * Spans around attempts, phases, calls, deliveries, look-ups and messages, for `createLatchkey({ tracing })`. Spans that the
 * service makes meanwhile hang below them, where its SDK has a context manager. A tracer that throws changes nothing.
 *
 * @throws {TypeError} for an unknown option, or something that is not the API of OpenTelemetry
 */
export function openTelemetryTracing<Context, Span extends TracedSpan>(
  options: OpenTelemetryTracingOptions<Context, Span>,
): Tracing {
  checkOptions("openTelemetryTracing", options, optionNames);
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
  // Asked for each time: an SDK may be registered later.
  const span = trace.getTracer("latchkey").startSpan(name, options, around);
  return { span, context: trace.setSpan(around, span) };
}

/** A context manager that throws, before it has run the work or after, must not keep it from running or run it twice. */
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
  quietly(() => context.with(inside, run));
  return run();
}

function linkOf(traceparent: unknown) {
  const context = parseTraceparent(traceparent);
  return context === null ? [] : [{ context: { ...context, isRemote: true } }];
}

function traceSpan(span: TracedSpan): TraceSpan {
  return {
    traceparent: quietly(() => formatTraceparent(span.spanContext())) ?? null,
    set: (attributes: SpanAttributes) => void quietly(() => span.setAttributes({ ...attributes })),
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

/** Of a tracer that gives no span. */
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
