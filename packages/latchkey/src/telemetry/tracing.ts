/** The port to a tracer: spans around the work that Latchkey runs. `latchkey/opentelemetry` implements it. */

export type SpanAttributes = Readonly<Record<string, string | number | boolean>>;

export interface SpanStart {
  /** Low cardinality: it may contain an operation, an effect or a step, but never a key or an id. */
  readonly name: string;
  /** `consumer`: the span processes a message that another span created. */
  readonly kind: "internal" | "consumer";
  readonly attributes: SpanAttributes;
  /** Spans that this one follows from, as W3C traceparents. Invalid ones are skipped. */
  readonly links?: readonly unknown[];
  /** Begins a new trace, even inside another span. Default false. */
  readonly root?: boolean;
}

/** An open span. No method throws. */
export interface TraceSpan {
  /** The W3C traceparent to link to; null: the span is not sampled. */
  readonly traceparent: string | null;
  set(attributes: SpanAttributes): void;
  /** Links to another span; an invalid W3C traceparent is ignored. */
  link(traceparent: unknown): void;
  /** @param code a stable code, never an error's text */
  fail(code: string): void;
}

export interface Tracing {
  /**
   * Runs `work` inside a new span, exactly once whatever the tracer does, and returns its result. An error of the work marks the
   * span as failed and is thrown; errors of the tracer are not.
   */
  inSpan<T>(start: SpanStart, work: (span: TraceSpan) => Promise<T>): Promise<T>;
}
