/** OpenTelemetry's SDK as a service configures it, with its spans in memory. It is global, so files that use it run alone. */
import * as api from "@opentelemetry/api";
import { InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { onRelease } from "./resources.ts";

export { api };

/** A span in the form that tests use. */
export interface SeenSpan {
  readonly name: string;
  readonly kind: number;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId: string | null;
  /** Ids of the spans that it links to. */
  readonly links: readonly string[];
  readonly attributes: ReadableSpan["attributes"];
  readonly status: ReadableSpan["status"];
  /** Everything that a backend would receive, as text. */
  readonly text: string;
}

export interface Spans {
  /** Those that have ended, in the order in which they did. */
  all(): readonly SeenSpan[];
  named(name: string): readonly SeenSpan[];
  /** The only one of this name. */
  one(name: string): SeenSpan;
  reset(): void;
}

export function recordSpans(sampler?: ConstructorParameters<typeof NodeTracerProvider>[0]): Spans {
  const exporter = new InMemorySpanExporter();
  const provider = new NodeTracerProvider({
    ...sampler,
    spanProcessors: [new SimpleSpanProcessor(exporter)],
  });
  provider.register();
  onRelease(async () => {
    await provider.shutdown();
    for (const part of [api.trace, api.context, api.propagation]) part.disable();
  });
  const all = () => exporter.getFinishedSpans().map(seen);
  const named = (name: string) => all().filter((span) => span.name === name);
  return {
    all,
    named,
    one(name) {
      const [span, ...more] = named(name);
      if (span !== undefined && more.length === 0) return span;
      const names = all().map((each) => each.name);
      throw new Error(`there must be one span "${name}" among ${JSON.stringify(names)}`);
    },
    reset: () => exporter.reset(),
  };
}

function seen(span: ReadableSpan): SeenSpan {
  const { name, kind, attributes, status, links, events } = span;
  const { traceId, spanId } = span.spanContext();
  const parentId = span.parentSpanContext?.spanId ?? null;
  const text = JSON.stringify({ name, attributes, status, links, events });
  return {
    ...{ name, kind, traceId, spanId, parentId, attributes, status, text },
    links: links.map(({ context }) => context.spanId),
  };
}

/** What a service does in a span of its own. */
export function ownSpan<T>(name: string, work: () => Promise<T>): Promise<T> {
  return api.trace.getTracer("service").startActiveSpan(name, async (span) => {
    try {
      return await work();
    } finally {
      span.end();
    }
  });
}
