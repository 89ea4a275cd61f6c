/** A delivery as the inbox sees it, and a verdict as the client of RabbitMQ does. */
import type { Message, Verdict } from "../broker.ts";
import type { Pauses } from "../consuming.ts";
import type { Inbox } from "../inbox.ts";
import type { RabbitmqDelivery, RabbitmqStatus } from "./client.ts";

const ack = 0;
const requeue = 1;
const drop = 2;

/** Its verdict, once its pause is over. */
export async function consumeDelivery<Tx>(
  inbox: Inbox,
  pauses: Pauses<Tx>,
  queue: string,
  delivery: RabbitmqDelivery,
): Promise<Verdict> {
  const verdict = await inbox.consume(messageOf(queue, delivery));
  if (verdict.settle === "give_back") await pauses.for(verdict.afterMs);
  return verdict;
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
    body: bytesOf(body),
    contentType: contentType ?? null,
    headers: headers ?? {},
    redelivered: redelivered ?? true,
  };
}

function bytesOf(body: unknown): Uint8Array {
  if (body instanceof Uint8Array) return body;
  return Buffer.from(typeof body === "string" ? body : JSON.stringify(body), "utf8");
}
