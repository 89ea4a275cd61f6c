/** RabbitMQ of three nodes, a quorum queue: nodes are killed while a relay and an inbox use it. */
import { Connection } from "rabbitmq-client";
import { test } from "vitest";
import { rabbitmqConsumer, rabbitmqRelay } from "../../packages/latchkey/src/messages/rabbitmq.ts";
import { startRabbitmqCluster } from "../support/broker-clusters.ts";
import { onRelease } from "../support/resources.ts";
import { surviveOutage } from "./outage.ts";

const queue = "orders";

test("every order is shipped once: the queue's leader is killed, then the majority, and both come back", async ({
  skip,
}) => {
  const cluster = await startRabbitmqCluster();
  const [first] = cluster ?? [];
  if (cluster === undefined || first === undefined) return skip("there is no broker");
  // The node through which a queue is declared becomes its leader.
  const declaring = new Connection({ url: first.url });
  await declaring.queueDeclare({ queue, durable: true, arguments: { "x-queue-type": "quorum" } });
  await declaring.close();
  const connection = new Connection({
    url: first.url,
    hosts: cluster.map(({ url }) => new URL(url).host),
    retryLow: 100,
    retryHigh: 500,
    heartbeat: 2,
  });
  connection.on("error", () => {});
  onRelease(() => connection.unsafeDestroy());
  const copies = connection.createPublisher({ confirm: true });

  await surviveOutage({
    name: "RabbitMQ",
    cluster,
    queue: {
      relay(latchkey) {
        const route = () => ({ exchange: "", routingKey: queue });
        return rabbitmqRelay(latchkey, "orders.created", { connection, route }).effect;
      },
      consume: async (latchkey, operation, ship) =>
        rabbitmqConsumer(latchkey, operation, { tenant: "shop", connection, queue }, ship),
      copy: (messageId, order) =>
        copies.send({ routingKey: queue, durable: true, messageId, contentType: "application/json" }, order),
    },
    leader: async () => first,
  });
});
