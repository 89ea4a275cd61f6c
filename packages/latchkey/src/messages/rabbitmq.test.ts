/** RabbitMQ: what its consumer withstands on a real server, and what its relay publishes. */
import { Connection } from "rabbitmq-client";
import { describe, expect, expectTypeOf, test } from "vitest";
import { rabbitmq } from "../../../../test/brokers/drivers.ts";
import { order, startInboxes } from "../../../../test/brokers/inboxes.ts";
import { type Announced, startRelays } from "../../../../test/brokers/relays.ts";
import { brokerFaults } from "../../../../test/brokers/suite.ts";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import { until } from "../../../../test/support/until.ts";
import { createLatchkey } from "../latchkey.ts";
import { systemPorts } from "../ports.ts";
import { type MemoryTransaction, memoryStore } from "../stores/memory.ts";
import type { RabbitmqEnvelope, RabbitmqReturned } from "./rabbitmq/client.ts";
import { type RabbitmqConnection, type RabbitmqRelay, rabbitmqConsumer, rabbitmqRelay } from "./rabbitmq.ts";

describe("the consumer and the relay", () => {
  brokerFaults(rabbitmq, (lab) => {
    test("a relay publishes under the downstream key, and is not content with a message that no queue takes", async () => {
      const connection = new Connection({ url: lab().url });
      const queue = `orders-${systemPorts.random.token()}`;
      let relay: RabbitmqRelay<Announced> | undefined;
      const { place, dispatch } = startRelays((latchkey) => {
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

    test("a message as deep as the client can parse is decided about once", async () => {
      const connection = new Connection({ url: lab().url });
      const queue = `deep-${systemPorts.random.token()}`;
      await connection.queueDeclare({ queue, exclusive: true });
      const memory = memoryStore();
      const latchkey = createLatchkey({ store: memory });
      const operation = latchkey.operation("deep");
      const consumer = rabbitmqConsumer(latchkey, operation, { connection, queue, tenant: "t" }, ({ tx }) =>
        tx.insert("deep", {}),
      );
      const publisher = connection.createPublisher({ confirm: true });
      const body = Buffer.from("[".repeat(20_000) + "]".repeat(20_000));
      await publisher.send({ routingKey: queue, messageId: "deep", contentType: "application/json" }, body);
      await until(() => consumer.counts().executed + consumer.counts().dead === 1, { what: "it is decided" });
      await consumer.stop();
      expect(consumer.counts()).toMatchObject({ received: 1, givenBack: 0 });
      expect(await connection.basicGet({ queue, noAck: true }), "it does not come again").toBeUndefined();
      await publisher.close();
      await connection.close();
    });

    test("a queue that is deleted on the server is reported, and consumed again once it is there", async () => {
      const connection = new Connection({ url: lab().url });
      const queue = `deleted-${systemPorts.random.token()}`;
      await connection.queueDeclare({ queue, durable: true });
      const errors: string[] = [];
      const latchkey = createLatchkey({
        store: memoryStore(),
        onEvent: (event) => {
          if (event.type === "service_error") errors.push(`${event.service}: ${event.error}`);
        },
      });
      const operation = latchkey.operation("op");
      const consumer = rabbitmqConsumer(latchkey, operation, { connection, queue, tenant: "t" }, ({ tx }) =>
        tx.insert("orders", {}),
      );
      const publisher = connection.createPublisher({ confirm: true });
      await publisher.send({ routingKey: queue, messageId: "first" }, {});
      await until(() => consumer.counts().executed === 1, { what: "it consumes" });
      await connection.queueDelete(queue);
      await until(() => errors.some((text) => text.startsWith(`consumer of ${queue}: `)), {
        what: "it is reported",
      });
      await connection.queueDeclare({ queue, durable: true });
      await publisher.send({ routingKey: queue, messageId: "second" }, {});
      await until(() => consumer.counts().executed === 2, { what: "it goes on", timeoutMs: 30_000 });
      await consumer.stop();
      await publisher.close();
      await connection.queueDelete(queue);
      await connection.close();
    });

    test.each(["classic", "quorum"] as const)(
      "a %s queue says that a message of a consumer that died was delivered before",
      async (type) => {
        const { queue, publish, spawn, consume, rows } = await startInboxes(rabbitmq, lab(), undefined);
        const connection = new Connection({ url: lab().url });
        await connection.queueDelete(queue);
        await connection.queueDeclare({ queue, durable: true, arguments: { "x-queue-type": type } });
        const died = await spawn();
        await publish([order("a", "kill")]);
        expect(await died.exited).toMatchObject({ signal: "SIGKILL" });
        const runs: boolean[] = [];
        const consumer = await consume(async ({ tx, input, message }) => {
          runs.push(message.redelivered);
          await tx.query("insert into business values ($1)", [input.order]);
        });
        await until(async () => (await rows()).length === 1, { what: "it has run" });
        await consumer.stop();
        expect(runs).toEqual([true]);
        await connection.queueDelete(queue);
        await connection.close();
      },
    );

    test("a message's bytes say what its sender wrote, though the client has parsed them", async () => {
      const connection = new Connection({ url: lab().url });
      const queue = `bodies-${systemPorts.random.token()}`;
      await connection.queueDeclare({ queue, exclusive: true });
      const latchkey = createLatchkey({ store: memoryStore() });
      const operation = latchkey.operation("bodies");
      const seen = new Map<string, string>();
      const consumer = rabbitmqConsumer(
        latchkey,
        operation,
        {
          connection,
          queue,
          tenant: "t",
          decode: ({ id, body }) => seen.set(String(id), Buffer.from(body).toString("latin1")),
        },
        ({ tx }) => tx.insert("bodies", {}),
      );
      const json = [
        '"text"',
        '"{\\"order\\":1}"',
        "null",
        "0",
        "false",
        '{"order":[1,null]}',
        "{not json",
        "",
      ];
      const bodies = [
        ...json.map((text) => ({ contentType: "application/json", body: Buffer.from(text) })),
        { contentType: "text/plain", body: Buffer.from('"text"') },
        { contentType: "application/octet-stream", body: Buffer.from([0xff, 0x00]) },
        { contentType: "application/json", contentEncoding: "gzip", body: Buffer.from([0x1f, 0x8b]) },
      ];
      const publisher = connection.createPublisher({ confirm: true });
      for (const [index, { body, ...envelope }] of bodies.entries())
        await publisher.send({ ...envelope, routingKey: queue, messageId: String(index) }, body);
      await until(() => consumer.counts().executed === bodies.length, { what: "all have come" });
      expect([...seen]).toEqual(bodies.map(({ body }, index) => [String(index), body.toString("latin1")]));
      await consumer.stop();
      await publisher.close();
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
