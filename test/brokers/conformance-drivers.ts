/** The broker suite's drivers for RabbitMQ and NATS: each consumer has a connection of its own, through a proxy that can cut it. */
import { jetstream } from "@nats-io/jetstream";
import { connect as connectNats, headers } from "@nats-io/transport-node";
import { Connection } from "rabbitmq-client";
import { natsConsumer } from "../../packages/latchkey/src/messages/nats.ts";
import { rabbitmqConsumer } from "../../packages/latchkey/src/messages/rabbitmq.ts";
import { systemPorts } from "../../packages/latchkey/src/ports.ts";
import type { BrokerUnderTest, ConsumerUnderTest } from "../../packages/latchkey-conformance/src/index.ts";
import { startProxy, type TcpProxy } from "../support/tcp-proxy.ts";
import { nats, rabbitmq } from "./drivers.ts";

/** What was opened for one case, closed in the opposite order. */
class Openings {
  readonly #closings: (() => Promise<unknown> | unknown)[] = [];

  add(close: () => Promise<unknown> | unknown): void {
    this.#closings.unshift(close);
  }

  async close(): Promise<void> {
    for (const close of this.#closings) await close();
  }
}

async function proxyTo(url: string, openings: Openings): Promise<{ proxy: TcpProxy; url: string }> {
  const proxy = await startProxy({ to: { port: Number(new URL(url).port) }, protocol: "bytes" });
  openings.add(() => proxy.close());
  return { proxy, url: proxy.url(url) };
}

const faultsOf = (proxy: TcpProxy): Pick<ConsumerUnderTest, "cut" | "die"> => ({
  die: () => proxy.cut(),
  async cut() {
    await proxy.cut();
    await proxy.pass();
  },
});

export async function rabbitmqUnderTest(url: string): Promise<BrokerUnderTest> {
  const openings = new Openings();
  const queue = `suite-${systemPorts.random.token()}`;
  const client = await rabbitmq.connect(url, queue);
  openings.add(() => client.close());
  await client.declare();
  const direct = new Connection({ url });
  openings.add(() => direct.close());
  const publisher = direct.createPublisher({ confirm: true });
  openings.add(() => publisher.close());
  return {
    async publish(messages) {
      for (const { id, body, contentType } of messages) {
        const envelope = { routingKey: queue, durable: true, messageId: id, contentType };
        await publisher.send(envelope, Buffer.from(body));
      }
    },
    async consume(latchkey, operation, { size, ...options }, handler) {
      const through = await proxyTo(url, openings);
      const connection = new Connection({ url: through.url, retryLow: 50, retryHigh: 200, heartbeat: 2 });
      connection.on("error", () => {});
      openings.add(() => connection.unsafeDestroy());
      const settings = { ...options, connection, queue, prefetch: size, deadLetterExchange: true };
      const consumer = rabbitmqConsumer(latchkey, operation, settings, handler);
      return { consumer, ...faultsOf(through.proxy) };
    },
    unsettled: () => client.left(),
    putAside: async () => (await client.putAside()) ?? 0,
    close: () => openings.close(),
  };
}

export async function natsUnderTest(url: string): Promise<BrokerUnderTest> {
  const openings = new Openings();
  const queue = `suite-${systemPorts.random.token()}`;
  const client = await nats.connect(url, queue);
  openings.add(() => client.close());
  await client.declare();
  const direct = await connectNats({ servers: url });
  openings.add(() => direct.close());
  return {
    async publish(messages) {
      for (const { id, body, contentType } of messages) {
        const named = headers();
        // Not as the message's own id: the stream would drop the copies, which are for the inbox.
        named.set("Order-Id", id);
        named.set("Content-Type", contentType);
        await jetstream(direct).publish(queue, body, { headers: named });
      }
    },
    async consume(latchkey, operation, { size, ...options }, handler) {
      const through = await proxyTo(url, openings);
      const connection = await connectNats({
        servers: through.url,
        ignoreClusterUpdates: true,
        maxReconnectAttempts: -1,
        reconnectTimeWait: 50,
      });
      openings.add(() => connection.close());
      const consumer = natsConsumer(
        latchkey,
        operation,
        {
          ...options,
          key: ({ headers: named }) => String(named["Order-Id"] ?? ""),
          consumer: await jetstream(connection).consumers.get(queue, "work"),
          source: queue,
          concurrency: size,
          workingMs: 300,
        },
        handler,
      );
      return { consumer, ...faultsOf(through.proxy) };
    },
    unsettled: () => client.left(),
    close: () => openings.close(),
  };
}
