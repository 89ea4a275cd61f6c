/** Sends one record with either client, to be kept by all replicas in sync. */
import type { KafkaJsProducer, KafkaProducer } from "./client.ts";

export interface OutgoingRecord {
  readonly topic: string;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly headers: readonly (readonly [string, Buffer])[];
}

const allInSync = -1;
/** How long a broker waits for its replicas; less than an effect's own limit. */
const ackTimeoutMs = 8_000;

/**
 * @returns a function that resolves when the record is kept
 * @throws {TypeError} when `producer` is not a producer of either client, or is one of KafkaJS that is not idempotent.
 */
export function publisherOn(producer: KafkaProducer): (record: OutgoingRecord) => Promise<void> {
  if (typeof producer?.send !== "function") {
    throw new TypeError("producer must be a producer of KafkaJS or of @platformatic/kafka");
  }
  if (!isKafkaJs(producer)) {
    return async ({ topic, key, value, headers }) => {
      const named = new Map(headers.map(([name, one]) => [Buffer.from(name, "utf8"), one]));
      const message = { topic, headers: named, ...(key && { key }), ...(value && { value }) };
      await producer.send({ acks: allInSync, idempotent: true, messages: [message] });
    };
  }
  if (!producer.isIdempotent()) {
    throw new TypeError(
      "producer must be idempotent: kafka.producer({ idempotent: true, maxInFlightRequests: 1 })",
    );
  }
  return async ({ topic, key, value, headers }) => {
    const message = { key, value, headers: Object.fromEntries(headers) };
    await producer.send({ topic, acks: allInSync, timeout: ackTimeoutMs, messages: [message] });
  };
}

function isKafkaJs(producer: KafkaProducer): producer is KafkaJsProducer {
  return "isIdempotent" in producer;
}
