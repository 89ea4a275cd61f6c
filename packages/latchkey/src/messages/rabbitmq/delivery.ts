/** Translates a delivery of the client into a message for the inbox, and its verdict into a status for the client. */
import type { Message, Verdict } from "../broker.ts";
import type { Pauses } from "../consuming.ts";
import type { Inbox } from "../inbox.ts";
import type { RabbitmqDelivery, RabbitmqStatus } from "./client.ts";
import { jsonText } from "./json-text.ts";

const ack = 0;
const requeue = 1;
const drop = 2;

/** Returned for an unexpected error, because the client requeues a message at once when its handler rejects, and would do so for ever. */
const unexpected: Verdict = { settle: "give_back", because: "handler-failed", afterMs: 5_000 };

/** The status for a delivery, once its verdict is there and its pause is over. Never rejects. */
export async function consumeDelivery<Tx>(
  inbox: Inbox,
  pauses: Pauses<Tx>,
  queue: string,
  delivery: RabbitmqDelivery,
  report: (error: unknown) => void,
): Promise<Verdict> {
  const verdict = await verdictOn(inbox, queue, delivery).catch((error: unknown) => {
    report(error);
    return unexpected;
  });
  if (verdict.settle === "give_back") await pauses.for(verdict.afterMs);
  return verdict;
}

async function verdictOn(inbox: Inbox, queue: string, delivery: RabbitmqDelivery): Promise<Verdict> {
  return inbox.consume(messageOf(queue, delivery));
}

export function statusOf(verdict: Verdict, deadLetterExchange: boolean): RabbitmqStatus {
  switch (verdict.settle) {
    case "ack":
      return ack;
    case "give_back":
      return requeue;
    case "dead":
      return deadLetterExchange ? drop : ack;
    default:
      return verdict satisfies never;
  }
}

function messageOf(queue: string, delivery: RabbitmqDelivery): Message {
  const { messageId, contentType, headers, body, redelivered } = delivery;
  return {
    id: messageId ?? null,
    source: queue,
    body: bytesOf(body, contentType),
    contentType: contentType ?? null,
    headers: headers ?? {},
    system: "rabbitmq",
    redelivered: redelivered ?? true,
  };
}

/**
 * The client passes texts that it has decoded, and values that it has parsed (only of exactly `application/json`, if it could,
 * and without a content encoding). Encoded again, they are the same bytes at every delivery.
 */
function bytesOf(body: unknown, contentType: string | undefined): Uint8Array {
  if (body instanceof Uint8Array) return body;
  const isText = typeof body === "string" && contentType !== "application/json";
  return Buffer.from(isText ? body : jsonText(body), "utf8");
}
