/** Kafka, as the tests of consumers use it: one topic of four partitions, and a consumer of either client. */

import { Consumer } from "@platformatic/kafka";
import { Kafka, logLevel } from "kafkajs";
import type { MessageConsumer } from "../../packages/latchkey/src/index.ts";
import { type KafkaConsumer, kafkaConsumer } from "../../packages/latchkey/src/messages/kafka.ts";
import { startKafka } from "../kafka/cluster.ts";
import { isThorough } from "../support/thorough.ts";
import type { BrokerClient, BrokerDriver, Sent } from "./driver.ts";

/** As many as the mock cluster gives a new topic. */
const partitions = 4;
/** Longer than the mock keeps a new group waiting (3 s), after which it would know its first member no more. */
const sessionTimeoutMs = 4_500;
const heartbeatMs = 200;
const maxWaitMs = 100;

export interface OpenConsumer {
  readonly consumer: KafkaConsumer;
  close(): Promise<void>;
}

type OpenConsumerOn = (url: string, groupId: string) => Promise<OpenConsumer>;

export function kafkaAt(url: string): Kafka {
  const retry = { initialRetryTime: 50, maxRetryTime: 500, retries: 20 };
  return new Kafka({ brokers: [url], clientId: "latchkey-test", logLevel: logLevel.NOTHING, retry });
}

export const openKafkaJs: OpenConsumerOn = async (url, groupId) => {
  const consumer = kafkaAt(url).consumer({
    groupId,
    sessionTimeout: sessionTimeoutMs,
    heartbeatInterval: heartbeatMs,
    maxWaitTimeInMs: maxWaitMs,
  });
  await consumer.connect();
  return { consumer, close: () => consumer.disconnect() };
};

export const openPlatformatic: OpenConsumerOn = async (url, groupId) => {
  const consumer = new Consumer({
    clientId: "latchkey-test",
    groupId,
    bootstrapBrokers: [url],
    sessionTimeout: sessionTimeoutMs,
    rebalanceTimeout: 10_000,
    heartbeatInterval: heartbeatMs,
    maxWaitTime: maxWaitMs,
  });
  return { consumer, close: () => consumer.close(true) };
};

/** Of the mock cluster; a broker that is given can be put through all of it. */
const forgetful = { words: "killing the broker", because: "it keeps everything in memory" };
const fragile = {
  words: "a frozen consumer",
  because: "the mock of librdkafka 2.0.2 crashes when a thawed member of this client joins its group again",
};

const oneByOne = {
  words: "in batches: a consumer dies",
  because: "the messages of a partition run one after the other",
};

/** What takes long is done with one of the clients by default, and with both under npm run test:all. */
const withTheOther = (words: string) => ({ words, because: "by default with the other client only" });

function driverOf(
  name: BrokerDriver["name"],
  open: OpenConsumerOn,
  mockSpared: NonNullable<BrokerDriver["spared"]>,
  long: NonNullable<BrokerDriver["spared"]>,
): BrokerDriver {
  const spared = [
    oneByOne,
    ...(process.env.LATCHKEY_KAFKA_URL ? [] : mockSpared),
    ...(isThorough ? [] : long),
  ];
  return {
    name,
    spared,
    parallel: true,
    rebalances: true,
    // A group waits out the session of each member that is killed, and a partition runs one message at a time.
    volume: { messages: 300, kills: 1 },
    start: startKafka,
    connect: (url, queue) => connectWith(open, url, queue),
  };
}

export const kafkaJs = driverOf("KafkaJS", openKafkaJs, [forgetful], [withTheOther("kills its process")]);
export const platformatic = driverOf(
  "@platformatic/kafka",
  openPlatformatic,
  [forgetful, fragile],
  [withTheOther("every message's row")],
);

async function connectWith(open: OpenConsumerOn, url: string, queue: string): Promise<BrokerClient> {
  const kafka = kafkaAt(url);
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  const admin = kafka.admin();
  await Promise.all([producer.connect(), admin.connect()]);
  const dead = `${queue}.dead`;
  return {
    async declare() {
      // A broker makes a topic of which somebody asks; the mock knows no other way.
      await admin.fetchTopicMetadata({ topics: [queue, dead] });
    },
    async publish(messages) {
      const batch = 500;
      for (let first = 0; first < messages.length; first += batch) {
        const some = messages.slice(first, first + batch).map(recordOf);
        await producer.send({ topic: queue, messages: some });
      }
    },
    async consume(latchkey, operation, { size = 20, ...options }, handler) {
      const { consumer, close } = await open(url, queue);
      const running = kafkaConsumer(
        latchkey,
        operation,
        {
          ...options,
          consumer,
          topics: [queue],
          concurrency: size,
          deadLetterTopic: { producer, topic: dead },
        },
        handler,
      );
      return closing(running, close);
    },
    left: async () => {
      const [ends, groups] = await Promise.all([
        admin.fetchTopicOffsets(queue),
        admin.fetchOffsets({ groupId: queue, topics: [queue] }),
      ]);
      const committed = new Map(
        groups
          .flatMap((group) => group.partitions)
          .map(({ partition, offset }) => [partition, Number(offset)]),
      );
      return sum(
        ends.map(({ partition, high, low }) => {
          const offset = committed.get(partition) ?? -1;
          return Number(high) - (offset < 0 ? Number(low) : offset);
        }),
      );
    },
    putAside: async () => sum((await admin.fetchTopicOffsets(dead)).map(({ high }) => Number(high))),
    async close() {
      await Promise.all([producer.disconnect(), admin.disconnect()]);
    },
  };
}

/** Spread over the partitions, so that a message and its copy may run beside each other. */
function recordOf({ id, body }: Sent, index: number) {
  const headers = id === null ? {} : { "message-id": id };
  return { partition: index % partitions, value: JSON.stringify(body), headers };
}

function closing(running: MessageConsumer, close: () => Promise<void>): MessageConsumer {
  return {
    counts: () => running.counts(),
    async stop() {
      await running.stop();
      await close();
    },
  };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}
