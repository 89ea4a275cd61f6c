/** The order service: stores orders, announces each over RabbitMQ, and receives shipments over NATS. */
import { jetstream } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/transport-node";
import { createLatchkey } from "latchkey";
import { natsConsumer } from "latchkey/nats";
import { postgresStore } from "latchkey/postgres";
import { rabbitmqRelay } from "latchkey/rabbitmq";
import type pg from "pg";
import type { Connection } from "rabbitmq-client";
import { type Order, orderQueue, readOrder, shippedSubject } from "./settings.ts";

export interface Connections {
  readonly rabbit: Connection;
  readonly nats: NatsConnection;
}

export async function startOrders(pool: pg.Pool, { rabbit, nats }: Connections, run: string) {
  let duplicates = 0;
  const latchkey = createLatchkey({
    store: postgresStore({ pool }),
    onEvent({ type }) {
      if (type === "replayed") duplicates += 1;
    },
  });
  const announce = rabbitmqRelay(latchkey, "orders.created", {
    connection: rabbit,
    route: (_order: Order) => ({ exchange: "", routingKey: orderQueue(run) }),
  });
  const create = latchkey.operation("orders.create");
  const shipped = await jetstream(nats).consumers.get(shippedSubject(run), "orders");
  const consumer = natsConsumer(
    latchkey,
    latchkey.operation("orders.shipped"),
    { consumer: shipped, tenant: "shop", decode: readOrder },
    async ({ tx, input }) => {
      await tx.query("update orders set shipped = shipped + 1 where id = $1 and run = $2", [input.id, run]);
    },
  );
  const worker = latchkey.startWorker();
  return {
    duplicates: () => duplicates,
    /** Returns the id of the message that announces it. Placing the same order again changes nothing. */
    place: async (order: Order) => {
      const request = { tenant: "shop", key: `${run}-${order.id}`, input: order };
      const placed = await latchkey.run(create, request, async ({ tx, attempt }) => {
        await tx.query("insert into orders (id, run, product) values ($1, $2, $3)", [
          order.id,
          run,
          order.product,
        ]);
        return attempt.enqueue(announce.effect, order).key;
      });
      if (placed.kind !== "executed" && placed.kind !== "replay")
        throw new Error(`not placed: ${placed.kind}`);
      return placed.value;
    },
    async stop() {
      await consumer.stop();
      await worker.stop();
      await announce.close();
    },
  };
}
