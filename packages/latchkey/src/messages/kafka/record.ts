/** A record of either client, and the message that the inbox gets for it. */
import { nonEmptyText } from "../../plain-text.ts";
import type { Message } from "../broker.ts";
import type { KafkaJsMessage, PlatformaticMessage } from "./client.ts";

export interface KafkaRecord {
  readonly topic: string;
  readonly partition: number;
  readonly offset: bigint;
  readonly leaderEpoch: number;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly headers: readonly (readonly [string, Buffer])[];
}

/** Where a record's id is taken from: a header, or its topic, partition and offset. */
export type KafkaIdFrom = { readonly header: string } | "offset";

export function recordOfKafkaJs(topic: string, partition: number, message: KafkaJsMessage): KafkaRecord {
  const { key, value, headers = {}, offset } = message;
  const pairs = Object.entries(headers).flatMap(([name, values]) =>
    [values].flat().map((one) => [name, bytesOf(one) ?? Buffer.alloc(0)] as const),
  );
  return {
    topic,
    partition,
    offset: BigInt(offset),
    leaderEpoch: -1,
    key: bytesOf(key),
    value: bytesOf(value),
    headers: pairs,
  };
}

export function recordOfPlatformatic(message: PlatformaticMessage): KafkaRecord {
  const { topic, partition, offset, leaderEpoch, key, value, headers } = message;
  const pairs = [...headers].map(
    ([name, one]) => [bytesOf(name)?.toString("utf8") ?? "", bytesOf(one) ?? Buffer.alloc(0)] as const,
  );
  return {
    topic,
    partition,
    offset,
    leaderEpoch,
    key: bytesOf(key),
    value: bytesOf(value),
    headers: pairs,
  };
}

export function messageOf(record: KafkaRecord, idFrom: KafkaIdFrom, redelivered: boolean): Message {
  const { topic, partition, offset, key, value } = record;
  const sent = headersOf(record);
  return {
    id: idOf(record, sent, idFrom),
    source: topic,
    body: value ?? new Uint8Array(),
    contentType: nonEmptyText(sent["content-type"]),
    headers: {
      ...sent,
      kafka_key: key?.toString("utf8") ?? null,
      kafka_partition: partition,
      kafka_offset: offset.toString(),
    },
    system: "kafka",
    redelivered,
  };
}

function idOf(
  { topic, partition, offset }: KafkaRecord,
  sent: Readonly<Record<string, unknown>>,
  idFrom: KafkaIdFrom,
): string | null {
  return idFrom === "offset" ? `${topic}-${partition}-${offset}` : nonEmptyText(sent[idFrom.header]);
}

/** The headers as texts; a header that was sent more than once is a list. */
function headersOf({ headers }: KafkaRecord): Record<string, string | string[]> {
  const all = new Map<string, string[]>();
  for (const [name, value] of headers) all.set(name, [...(all.get(name) ?? []), value.toString("utf8")]);
  return Object.fromEntries(
    [...all].map(([name, values]) => [name, values.length === 1 ? (values[0] ?? "") : values]),
  );
}

function bytesOf(value: Uint8Array | string | null | undefined): Buffer | null {
  if (value === null || value === undefined) return null;
  return typeof value === "string" ? Buffer.from(value, "utf8") : Buffer.from(value);
}
