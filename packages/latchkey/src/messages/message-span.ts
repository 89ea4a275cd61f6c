/** The span of one message, from its delivery to its verdict. */
import type { SpanAttributes, SpanStart, Tracing } from "../telemetry/tracing.ts";
import type { Message, Verdict } from "./broker.ts";

/**
 * A child of the span of the client that has delivered the message, where that is instrumented, with a link to the sender's
 * span. Attributes follow OpenTelemetry's semantic conventions 1.45 for messaging; the message's id is left out, because it
 * is an idempotency key.
 */
export function inMessageSpan(
  tracing: Tracing | null,
  operation: string,
  message: Message,
  decide: () => Promise<Verdict>,
): Promise<Verdict> {
  if (tracing === null) return decide();
  return tracing.inSpan(startOf(operation, message), async (span) => {
    const verdict = await decide();
    const { settle, because } = verdict;
    span.set({ "latchkey.verdict": settle, "latchkey.because": because });
    if (settle === "dead") span.fail(because);
    return verdict;
  });
}

function startOf(operation: string, { source, system, headers }: Message): SpanStart {
  const broker: SpanAttributes = system === undefined ? {} : { "messaging.system.name": system };
  return {
    name: `process ${source}`,
    kind: "consumer",
    links: [textOf(headers.traceparent)],
    attributes: {
      ...broker,
      "messaging.operation.name": "process",
      "messaging.operation.type": "process",
      "messaging.destination.name": source,
      "latchkey.operation": operation,
    },
  };
}

const traceparentLength = 55;

/** Clients that do not know a header's encoding pass its bytes. */
function textOf(header: unknown): unknown {
  const isBytes = header instanceof Uint8Array && header.length === traceparentLength;
  return isBytes ? Buffer.from(header).toString("latin1") : header;
}
