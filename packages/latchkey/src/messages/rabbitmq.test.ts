/** RabbitMQ: what its consumer withstands on a real server, and what its relay publishes. */
import { Connection } from "rabbitmq-client";
import { describe, expect, expectTypeOf, test } from "vitest";
import { rabbitmq } from "../../../../test/brokers/drivers.ts";
import { type Announced, relayTown } from "../../../../test/brokers/relays.ts";
import { brokerFaults } from "../../../../test/brokers/suite.ts";
import { createLatchkey } from "../latchkey.ts";
import { systemPorts } from "../ports.ts";
import { type MemoryTransaction, memoryStore } from "../stores/memory.ts";
import { manualPorts } from "../testing/manual-ports.ts";
import type { RabbitmqEnvelope, RabbitmqReturned } from "./rabbitmq/client.ts";
import { type RabbitmqConnection, type RabbitmqRelay, rabbitmqConsumer, rabbitmqRelay } from "./rabbitmq.ts";

describe("the consumer and the relay", () => {
  brokerFaults(rabbitmq, (lab) => {
    test("a relay publishes under the downstream key, and is not content with a message that no queue takes", async () => {
      const connection = new Connection({ url: lab().url });
      const queue = `orders-${systemPorts.random.token()}`;
      let relay: RabbitmqRelay<Announced> | undefined;
      const { place, dispatch } = relayTown((latchkey) => {
        relay = rabbitmqRelay<never, Announced>(latchkey, "orders.created", {
          connection,
          route: ({ order }) => ({ exchange: "", routingKey: queue, headers: { order } }),
        });
        return relay.effect;
      });
      const id = await place("a");
      expect(await dispatch(), "returned").toMatchObject({ delivered: 0, retried: 1 });
      await connection.queueDeclare({ queue, durable: true });
      expect(await dispatch()).toMatchObject({ delivered: 1 });
      const message = await connection.basicGet({ queue, noAck: true });
      expect(message).toMatchObject({
        messageId: id,
        durable: true,
        body: { order: "a" },
        headers: { order: "a" },
      });
      expect(await connection.basicGet({ queue, noAck: true })).toBeUndefined();
      await relay?.close();
      await connection.close();
    });
  });
});

test("of two sends of one message, each learns of its own return, though they come back together", async () => {
  const sent: { envelope: RabbitmqEnvelope; confirm: () => void }[] = [];
  const listeners: ((message: RabbitmqReturned) => void)[] = [];
  const connection = {
    createPublisher: () => ({
      send: (envelope: RabbitmqEnvelope) =>
        new Promise<void>((confirm) => sent.push({ envelope, confirm: () => confirm() })),
      on: (_event: string, listener: (message: RabbitmqReturned) => void) => listeners.push(listener),
      close: async () => {},
    }),
  };
  const ports = manualPorts();
  const latchkey = createLatchkey({ store: memoryStore({ ports }), ports });
  const { effect } = rabbitmqRelay<MemoryTransaction, null>(latchkey, "r", {
    connection: connection as never,
    route: () => ({ exchange: "", routingKey: "nowhere", headers: { order: 1 } }),
  });
  const call = { key: "one", signal: new AbortController().signal };
  const sends = Promise.allSettled([
    effect.settings.execute(null, call),
    effect.settings.execute(null, call),
  ]);
  const comeBack = (at: number) => {
    const { envelope, confirm } = sent[at] as (typeof sent)[number];
    for (const tell of listeners) tell({ ...envelope, replyText: "NO_ROUTE" });
    confirm();
  };
  comeBack(0);
  await ports.clock.advance(1);
  comeBack(1);
  await ports.clock.advance(1);
  expect((await sends).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect(sent.map(({ envelope }) => [envelope.messageId, envelope.headers.order])).toEqual([
    ["one", 1],
    ["one", 1],
  ]);
});

test("the real client's types fit", () => {
  expectTypeOf<Connection>().toExtend<RabbitmqConnection>();
});

test("what is out of range is refused at construction", () => {
  const latchkey = createLatchkey({ store: memoryStore() });
  const operation = latchkey.operation("op");
  const connection = { createConsumer: () => expect.unreachable() } as never;
  const make = (options: object) =>
    rabbitmqConsumer(
      latchkey,
      operation,
      { tenant: "t", connection, queue: "q", ...options },
      async () => {},
    );
  expect(() => make({ connection: {} })).toThrow(TypeError);
  expect(() => make({ queue: "" })).toThrow(TypeError);
  expect(() => make({ prefetch: 0 })).toThrow(TypeError);
  expect(() => make({ prefetch: 70_000 })).toThrow(TypeError);
  expect(() =>
    rabbitmqRelay(latchkey, "x", {
      connection: {} as never,
      route: () => ({ exchange: "", routingKey: "" }),
    }),
  ).toThrow(TypeError);
});
