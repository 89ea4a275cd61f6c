/** A delivery has its own trace, linked to the attempt that enqueued its effect, because the outbox is a queue. */
import type { LookedUpSend } from "../effects/look-up.ts";
import type { SpanStart, Tracing } from "../telemetry/tracing.ts";
import type { Delivery, DeliveryResult } from "./delivery.ts";

/** The attributes follow the messaging conventions of OpenTelemetry's semantic conventions 1.45. */
export function inDeliverySpan<Tx>(
  tracing: Tracing,
  delivery: Delivery<Tx>,
  deliver: (delivery: Delivery<Tx>) => Promise<DeliveryResult>,
): Promise<DeliveryResult> {
  return tracing.inSpan(startOf(delivery), async (span) => {
    const result = await deliver({ ...delivery, span });
    span.set({ "latchkey.delivery.result": result });
    if (result === "left") span.fail("claim-lost");
    return result;
  });
}

function startOf<Tx>({ row }: Delivery<Tx>): SpanStart {
  return {
    name: `process ${row.effect}`,
    kind: "consumer",
    root: true,
    links: [row.trace],
    attributes: {
      "messaging.system.name": "latchkey",
      "messaging.operation.name": "process",
      "messaging.operation.type": "process",
      "messaging.destination.name": row.effect,
      "messaging.message.id": row.id,
      "latchkey.operation": row.operation,
      "latchkey.record.id": row.recordId,
      "latchkey.attempt": row.fence.attempt,
    },
  };
}

/** One look-up of a send that may have happened. */
export function inLookUpSpan<Tx>(
  tracing: Tracing,
  { row }: Delivery<Tx>,
  ask: () => Promise<LookedUpSend>,
): Promise<LookedUpSend> {
  const attributes = { "latchkey.effect": row.effect, "latchkey.record.id": row.recordId };
  return tracing.inSpan({ name: `look up ${row.effect}`, kind: "internal", attributes }, async (span) => {
    const looked = await ask();
    span.set({ "latchkey.found": looked.kind });
    return looked;
  });
}
