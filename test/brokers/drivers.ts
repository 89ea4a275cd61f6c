/** RabbitMQ and NATS JetStream, as the tests of consumers use them; Kafka is beside this. */
import { AckPolicy, jetstream, jetstreamManager, RetentionPolicy } from "@nats-io/jetstream";
import { connect as connectNats, headers, nanos } from "@nats-io/transport-node";
import { Connection } from "rabbitmq-client";
import { natsConsumer } from "../../packages/latchkey/src/messages/nats.ts";
import { rabbitmqConsumer } from "../../packages/latchkey/src/messages/rabbitmq.ts";
import { startNats, startRabbitmq } from "../support/private-brokers.ts";
import type { BrokerDriver, Sent } from "./driver.ts";

export const rabbitmq: BrokerDriver = {
  name: "RabbitMQ",
  start: startRabbitmq,
  async connect(url, queue) {
    const connection = new Connection({ url, retryLow: 100, retryHigh: 500, heartbeat: 2 });
    connection.on("error", () => {});
    const publisher = connection.createPublisher({ confirm: true, maxAttempts: 20 });
    const dead = `${queue}.dead`;
    return {
      async declare() {
        await connection.queueDeclare({ queue: dead, durable: true });
        const away = { "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead };
        await connection.queueDeclare({ queue, durable: true, arguments: away });
      },
      async publish(messages) {
        const send = ({ id, body }: Sent) => {
          const named = id === null ? {} : { messageId: id };
          const text = Buffer.from(JSON.stringify(body));
          const envelope = { routingKey: queue, durable: true, contentType: "application/json", ...named };
          return publisher.send(envelope, text);
        };
        await Promise.all(messages.map(send));
      },
      consume: async (latchkey, operation, { size = 20, ...options }, handler) =>
        rabbitmqConsumer(
          latchkey,
          operation,
          { ...options, connection, queue, prefetch: size, deadLetterExchange: true },
          handler,
        ),
      left: async () => (await connection.queueDeclare({ queue, passive: true })).messageCount,
      putAside: async () => (await connection.queueDeclare({ queue: dead, passive: true })).messageCount,
      async close() {
        await publisher.close();
        await connection.close();
      },
    };
  },
};

/** Short, so that what a dead process had is soon delivered again. */
const ackWaitMs = 1_500;
/** When somebody asks and nothing has come for so long, nothing will: longer than an inbox holds a message. */
const quietMinMs = 15_000;

export const nats: BrokerDriver = {
  name: "NATS",
  start: startNats,
  async connect(url, queue) {
    const connection = await connectNats({ servers: url, maxReconnectAttempts: -1, reconnectTimeWait: 100 });
    const manager = () => jetstreamManager(connection, { checkAPI: false });
    const js = jetstream(connection);
    let ghosts = 0;
    return {
      async declare() {
        const jsm = await manager();
        await jsm.streams.add({
          name: queue,
          subjects: [queue],
          retention: RetentionPolicy.Workqueue,
        });
        await jsm.consumers.add(queue, {
          durable_name: "work",
          ack_policy: AckPolicy.Explicit,
          ack_wait: nanos(ackWaitMs),
        });
      },
      async publish(messages) {
        for (const { id, body } of messages) {
          const named = headers();
          // Not as the message's own id: the stream would drop the duplicates, which are for the inbox.
          if (id !== null) named.set("Order-Id", id);
          await js.publish(queue, JSON.stringify(body), { headers: named, retries: 20 });
        }
      },
      async consume(latchkey, operation, { size = 20, ...options }, handler) {
        const consumer = await js.consumers.get(queue, "work");
        return natsConsumer(
          latchkey,
          operation,
          {
            key: ({ headers: named }) => String(named["Order-Id"] ?? ""),
            ...options,
            consumer,
            source: queue,
            concurrency: size,
            workingMs: 500,
          },
          handler,
        );
      },
      // Not what the stream holds: after a kill nats-server 2.9 keeps what its consumer had acknowledged. And the other way
      // round: it waits for acknowledgements of messages that its stream has dropped, and never delivers them again.
      async left() {
        const info = await (await manager()).consumers.info(queue, "work");
        const { num_pending, num_ack_pending, num_waiting, delivered } = info;
        const quietMs = Date.now() - Date.parse(String(delivered.last_active ?? info.created));
        if (num_pending === 0 && num_waiting > 0 && quietMs > quietMinMs) ghosts = num_ack_pending;
        return num_pending + Math.max(0, num_ack_pending - ghosts);
      },
      putAside: async () => null,
      close: () => connection.close(),
    };
  },
};

/** Kafka's clients take as long to load as all else that a consuming process needs. */
const kafka = () => import("./kafka.ts");

/** By name; each is loaded when it is asked for. */
export const loadDriver: Readonly<Record<BrokerDriver["name"], () => Promise<BrokerDriver>>> = {
  RabbitMQ: async () => rabbitmq,
  NATS: async () => nats,
  KafkaJS: async () => (await kafka()).kafkaJs,
  "@platformatic/kafka": async () => (await kafka()).platformatic,
};
