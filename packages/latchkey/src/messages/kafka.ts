/**
 * Kafka over KafkaJS or `@platformatic/kafka`: a consumer that feeds an inbox, and a relay that publishes from the outbox. The
 * clients reconnect by themselves; Latchkey opens and closes no connection.
 */
import type { Effect } from "../effects/effect.ts";
import type { DirectExecution, Execution } from "../engine/classify.ts";
import { checkOptions, type OptionNames } from "../known-options.ts";
import type { Latchkey } from "../latchkey.ts";
import type { Operation } from "../operations/operation.ts";
import type { OwnedOperation } from "../operations/owned-operation.ts";
import type { MessageConsumer } from "./broker.ts";
import { checkCount, startConsuming } from "./consuming.ts";
import { createInbox, type InboxOptions, type MessageHandler } from "./inbox.ts";
import { inboxOptionNames } from "./inbox-options.ts";
import type {
  KafkaConsumer,
  KafkaJsConsumer,
  KafkaJsProducer,
  KafkaProducer,
  PlatformaticConsumer,
  PlatformaticProducer,
} from "./kafka/client.ts";
import { type ConsumeTopics, KafkaJsConsuming } from "./kafka/kafkajs.ts";
import { PlatformaticConsuming } from "./kafka/platformatic.ts";
import { publisherOn } from "./kafka/publishing.ts";
import type { KafkaIdFrom } from "./kafka/record.ts";
import { Settling } from "./kafka/settling.ts";
import { type RelayOptions, relayEffect, relayOptionNames } from "./relay.ts";

export type {
  KafkaConsumer,
  KafkaIdFrom,
  KafkaJsConsumer,
  KafkaJsProducer,
  KafkaProducer,
  PlatformaticConsumer,
  PlatformaticProducer,
};

export interface KafkaConsumerOptions<I> extends InboxOptions<I> {
  /**
   * A consumer of KafkaJS that is connected and not subscribed, or one of @platformatic/kafka without deserializers. Use it
   * for nothing else: Latchkey subscribes it, runs it, and makes it leave its group.
   */
  readonly consumer: KafkaConsumer;
  readonly topics: readonly string[];
  /**
   * Where a message's id is: in a header; or `"offset"` for the id `topic-partition-offset`, which is the same for every
   * delivery, but not for a copy that the sender sends again. Default: `{ header: "message-id" }`.
   */
  readonly idFrom?: KafkaIdFrom;
  /** How many partitions run a message at once; the messages of one partition run one after the other. Default 20. */
  readonly concurrency?: number;
  /** Whether a group that has committed no offset yet begins with the oldest message, or the next new one. Default true. */
  readonly fromBeginning?: boolean;
  /**
   * Where dead letters are sent, besides being kept in Latchkey's table, before their offsets are committed: key, value and
   * headers as they were, and headers `latchkey-dead-reason`, `-topic`, `-partition` and `-offset`. Default null: nowhere.
   */
  readonly deadLetterTopic?: { readonly producer: KafkaProducer; readonly topic: string } | null;
  /**
   * How long the inbox holds a message and retries it while it is running elsewhere or the store cannot be used; then its
   * partition pauses. Default 1 second, because with KafkaJS the other partitions of the same broker wait in the meantime.
   */
  readonly holdMs?: number;
}

const consumerOptionNames = {
  ...inboxOptionNames,
  consumer: true,
  topics: true,
  idFrom: true,
  concurrency: true,
  fromBeginning: true,
  deadLetterTopic: true,
} as const satisfies OptionNames<KafkaConsumerOptions<never>>;

/** The header that a relay writes and a consumer reads. */
const idHeader = "message-id";

/**
 * Starts to consume. An offset is committed when the work of its message and of all messages before it in the partition is
 * committed. A message that is to be retried delays those after it for its pause, and no offset after it is committed.
 *
 * @param handler runs a message; only for an operation that does not own its work
 * @throws {TypeError} when an option is missing or out of range.
 */
export function kafkaConsumer<Tx, E extends Execution, I>(
  latchkey: Latchkey<Tx>,
  operation: OwnedOperation<E, I>,
  options: KafkaConsumerOptions<I>,
): MessageConsumer;
export function kafkaConsumer<Tx, E extends DirectExecution, I = unknown>(
  latchkey: Latchkey<Tx>,
  operation: Operation<E>,
  options: KafkaConsumerOptions<I>,
  handler: MessageHandler<Tx, E, I>,
): MessageConsumer;
export function kafkaConsumer<Tx, E extends DirectExecution, I>(
  latchkey: Latchkey<Tx>,
  operation: Operation<E>,
  options: KafkaConsumerOptions<I>,
  handler?: MessageHandler<Tx, E, I>,
): MessageConsumer {
  checkOptions("kafkaConsumer", options, consumerOptionNames);
  const {
    consumer,
    deadLetterTopic = null,
    idFrom = { header: idHeader },
    topics: _topics,
    fromBeginning: _fromBeginning,
    concurrency: _concurrency,
    holdMs = 1_000,
    ...others
  } = options;
  if (deadLetterTopic !== null) {
    checkOptions("kafkaConsumer: deadLetterTopic", deadLetterTopic, { producer: true, topic: true });
  }
  if (idFrom !== "offset" && (typeof idFrom?.header !== "string" || idFrom.header === "")) {
    throw new TypeError('idFrom must be "offset" or name a header');
  }
  const topics = topicsOf(options);
  const { runtime } = latchkey;
  const inboxOptions = { ...others, holdMs };
  const inbox = createInbox(latchkey, operation, inboxOptions, handler as MessageHandler<Tx, E, I>);
  const settling = new Settling(runtime, inbox, { idFrom, deadLetterTopic });
  const consuming = isKafkaJs(consumer)
    ? new KafkaJsConsuming(runtime, consumer, topics, settling)
    : new PlatformaticConsuming(runtime, consumer, topics, settling);
  return startConsuming(runtime, inbox, consuming);
}

function topicsOf<I>(options: KafkaConsumerOptions<I>): ConsumeTopics {
  const { topics, fromBeginning = true } = options;
  if (
    !Array.isArray(topics) ||
    topics.length === 0 ||
    topics.some((one) => typeof one !== "string" || !one)
  ) {
    throw new TypeError("topics must be a list of names");
  }
  return { topics, fromBeginning, concurrency: checkCount("concurrency", options.concurrency ?? 20, 10_000) };
}

/** @throws {TypeError} when `consumer` is of neither client. */
function isKafkaJs(consumer: KafkaConsumer): consumer is KafkaJsConsumer {
  if (typeof (consumer as Partial<KafkaJsConsumer> | null)?.run === "function") return true;
  if (typeof (consumer as Partial<PlatformaticConsumer> | null)?.consume === "function") return false;
  throw new TypeError("consumer must be a consumer of KafkaJS or of @platformatic/kafka");
}

export interface KafkaRelayOptions<I> extends RelayOptions {
  /**
   * A producer of KafkaJS that is connected and was made with `{ idempotent: true, maxInFlightRequests: 1 }`, or one of
   * @platformatic/kafka without serializers.
   */
  readonly producer: KafkaProducer;
  /** Where a message goes. Messages of one key keep their order: give all messages of an aggregate the same key, and order their delivery. */
  readonly route: (input: I) => {
    readonly topic: string;
    readonly key: string;
    readonly headers?: Readonly<Record<string, string>>;
  };
}

const relayNames = {
  ...relayOptionNames,
  producer: true,
  route: true,
} as const satisfies OptionNames<KafkaRelayOptions<never>>;

/**
 * Defines an effect that publishes its input as JSON and is delivered when all replicas in sync have it. The message's id
 * (header `message-id`) is the same on every attempt. Brokers drop a message that the same session of the client sends
 * twice; inboxes recognise one that another attempt has sent again by its id.
 *
 * @throws {TypeError} when an option is missing or out of range, or the name is taken.
 */
export function kafkaRelay<Tx, I>(
  latchkey: Latchkey<Tx>,
  name: string,
  options: KafkaRelayOptions<I>,
): Effect<I, null> {
  checkOptions("kafkaRelay", options, relayNames);
  const publish = publisherOn(options.producer);
  return latchkey.effect<I, null>(
    name,
    relayEffect(options, async (input, { key: id }) => {
      const { topic, key, headers = {} } = options.route(input);
      const named = { ...headers, "content-type": "application/json", [idHeader]: id };
      await publish({
        topic,
        key: Buffer.from(key, "utf8"),
        value: Buffer.from(JSON.stringify(input), "utf8"),
        headers: Object.entries(named).map(([header, text]) => [header, Buffer.from(text, "utf8")] as const),
      });
      return null;
    }),
  );
}
