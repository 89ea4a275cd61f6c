/** The port to a tracer: spans around what Latchkey runs. It knows no vendor; `latchkey/opentelemetry` has the one that is used. */

export type SpanAttributes = Readonly<Record<string, string | number | boolean>>;

export interface SpanStart {
  /** Of low cardinality: an operation, an effect or a step belongs in it, a key or an id never. */
  readonly name: string;
  /** `consumer`: it processes a message that another span has made. */
  readonly kind: "internal" | "consumer";
  readonly attributes: SpanAttributes;
  /** Spans that it follows from, as W3C traceparents. What is none is left out. */
  readonly links?: readonly unknown[];
  /** Begins a trace of its own, whatever runs around it. Default false. */
  readonly root?: boolean;
}

/** A span that is open. No method throws. */
export interface TraceSpan {
  /** Where others may link to, as a W3C traceparent; null: it is not sampled. */
  readonly traceparent: string | null;
  set(attributes: SpanAttributes): void;
  /** Links to another span; what is no W3C traceparent is left out. */
  link(traceparent: unknown): void;
  /** @param code stable, and never the text of an error */
  fail(code: string): void;
}

export interface Tracing {
  /**
   * Runs `work` inside a new span: once, whatever becomes of the span, and gives what it gives. An error of the work's is the
   * span's failure. Never throws by itself.
   */
  inSpan<T>(start: SpanStart, work: (span: TraceSpan) => Promise<T>): Promise<T>;
}
