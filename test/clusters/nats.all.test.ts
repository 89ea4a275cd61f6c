/** NATS JetStream of three nodes, a stream of three replicas: nodes are killed while a relay and an inbox use it. */
import { AckPolicy, jetstream, jetstreamManager, RetentionPolicy } from "@nats-io/jetstream";
import { connect, headers, nanos } from "@nats-io/transport-node";
import { expect, test } from "vitest";
import { natsConsumer, natsRelay } from "../../packages/latchkey/src/messages/nats.ts";
import { natsNodeName, startNatsCluster } from "../support/broker-clusters.ts";
import { onRelease } from "../support/resources.ts";
import { until } from "../support/until.ts";
import { surviveOutage } from "./outage.ts";

const stream = "orders";
const replicas = 3;

test("every order is shipped once: the stream's leader is killed, then the majority, and both come back", async ({
  skip,
}) => {
  const cluster = await startNatsCluster();
  if (cluster === undefined) return skip("there is no broker");
  const servers = cluster.map(({ url }) => url);
  const connection = await connect({ servers, maxReconnectAttempts: -1, reconnectTimeWait: 100 });
  onRelease(() => connection.close());
  const js = jetstream(connection);
  // A cluster that has just started has no leader for a moment.
  const manager = await until(() => jetstreamManager(connection), { what: "JetStream has a leader" });
  if (manager === undefined) throw new Error("no manager");
  const settings = {
    name: stream,
    subjects: [stream],
    retention: RetentionPolicy.Workqueue,
    num_replicas: replicas,
    // The shortest there is: later copies are for the inbox.
    duplicate_window: nanos(100),
  };
  await until(() => manager.streams.add(settings), { what: "the stream is there" });
  const consumer = {
    durable_name: "work",
    ack_policy: AckPolicy.Explicit,
    ack_wait: nanos(10_000),
    num_replicas: replicas,
  };
  await until(() => manager.consumers.add(stream, consumer), { what: "its consumer is there" });

  await surviveOutage({
    name: "NATS",
    cluster,
    queue: {
      relay: (latchkey) => natsRelay(latchkey, "orders.created", { jetstream: js, subject: () => stream }),
      consume: async (latchkey, operation, ship) => {
        const own = await js.consumers.get(stream, "work");
        return natsConsumer(latchkey, operation, { tenant: "shop", consumer: own }, ship);
      },
      copy(id, order) {
        const named = headers();
        named.set("Nats-Msg-Id", id);
        return js.publish(stream, JSON.stringify(order), { headers: named });
      },
    },
    async leader() {
      const info = await manager.streams.info(stream);
      const leader = cluster.find((node) => natsNodeName(node) === info.cluster?.leader);
      if (leader === undefined) throw new Error("the stream has no leader");
      return leader;
    },
  });
  expect((await until(() => manager.streams.info(stream)))?.config.num_replicas).toBe(replicas);
});
