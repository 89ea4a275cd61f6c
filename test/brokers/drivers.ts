/** RabbitMQ and NATS JetStream, as the tests of consumers use them: a durable queue, and somebody who publishes to it. */
import { AckPolicy, jetstream, jetstreamManager, RetentionPolicy } from "@nats-io/jetstream";
import { connect as connectNats, headers, nanos } from "@nats-io/transport-node";
import { Connection } from "rabbitmq-client";
import type {
  InboxOptions,
  Latchkey,
  MessageConsumer,
  MessageHandler,
  Operation,
} from "../../packages/latchkey/src/index.ts";
import { natsConsumer } from "../../packages/latchkey/src/messages/nats.ts";
import { rabbitmqConsumer } from "../../packages/latchkey/src/messages/rabbitmq.ts";
import { type Broker, startNats, startRabbitmq } from "../support/private-brokers.ts";

export interface Sent {
  readonly id: string | null;
  readonly body: unknown;
}

export interface ConsumeOptions<I> extends InboxOptions<I> {
  readonly size?: number;
}

export interface BrokerClient {
  /** Makes the queue, and where its dead letters go. */
  declare(): Promise<void>;
  publish(messages: readonly Sent[]): Promise<void>;
  consume<Tx, I>(
    latchkey: Latchkey<Tx>,
    operation: Operation<"transaction">,
    options: ConsumeOptions<I>,
    handler: MessageHandler<Tx, "transaction", I>,
  ): Promise<MessageConsumer>;
  /** Messages that nobody has settled, while nobody consumes. */
  left(): Promise<number>;
  /** What the broker has put aside as dead: a number, or null where it only forgets them. */
  putAside(): Promise<number | null>;
  close(): Promise<void>;
}

export interface BrokerDriver {
  readonly name: "RabbitMQ" | "NATS";
  start(): Promise<Broker | undefined>;
  connect(url: string, queue: string): Promise<BrokerClient>;
}

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

export const nats: BrokerDriver = {
  name: "NATS",
  start: startNats,
  async connect(url, queue) {
    const connection = await connectNats({ servers: url, maxReconnectAttempts: -1, reconnectTimeWait: 100 });
    const manager = () => jetstreamManager(connection, { checkAPI: false });
    const js = jetstream(connection);
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
      // Not what the stream holds: after a kill nats-server 2.9 keeps what its consumer had acknowledged.
      async left() {
        const { num_pending, num_ack_pending } = await (await manager()).consumers.info(queue, "work");
        return num_pending + num_ack_pending;
      },
      putAside: async () => null,
      close: () => connection.close(),
    };
  },
};

export const drivers = { RabbitMQ: rabbitmq, NATS: nats };
