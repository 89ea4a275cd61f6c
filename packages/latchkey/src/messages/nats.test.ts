/** NATS JetStream: what its consumer withstands on a real server, and what its relay publishes. */
import {
  AckPolicy,
  type Consumer,
  type JetStreamClient,
  jetstream,
  jetstreamManager,
} from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { describe, expect, expectTypeOf, test } from "vitest";
import { nats } from "../../../../test/brokers/drivers.ts";
import { relayTown } from "../../../../test/brokers/relays.ts";
import { brokerFaults } from "../../../../test/brokers/suite.ts";
import { until } from "../../../../test/support/until.ts";
import { createLatchkey } from "../latchkey.ts";
import { systemPorts } from "../ports.ts";
import { memoryStore } from "../stores/memory.ts";
import { type NatsConsumer, type NatsJetStream, natsConsumer, natsRelay } from "./nats.ts";

describe("the consumer and the relay", () => {
  brokerFaults(nats, (lab) => {
    test("a relay publishes under the downstream key, and a second time changes nothing", async () => {
      const connection = await connect({ servers: lab().url });
      const [js, jsm] = [jetstream(connection), await jetstreamManager(connection)];
      const subject = `orders-${systemPorts.random.token()}`;
      const { place, dispatch } = relayTown((latchkey) =>
        natsRelay(latchkey, "orders.created", { jetstream: js, subject: () => subject }),
      );
      const id = await place("a");
      expect(await dispatch(), "no stream takes it").toMatchObject({ delivered: 0, retried: 1 });
      await jsm.streams.add({ name: subject, subjects: [subject] });
      expect(await dispatch()).toMatchObject({ delivered: 1 });
      expect(await js.publish(subject, "again", { msgID: id })).toMatchObject({ duplicate: true });
      const stored = await jsm.streams.getMessage(subject, { seq: 1 });
      expect([stored?.header.get("Nats-Msg-Id"), stored?.json()]).toEqual([id, { order: "a" }]);
      await connection.close();
    });

    test.each(["consumer", "stream"])("a %s that is deleted on the server is reported", async (deleted) => {
      const connection = await connect({ servers: lab().url });
      const [js, jsm] = [jetstream(connection), await jetstreamManager(connection)];
      const name = `deleted-${systemPorts.random.token()}`;
      await jsm.streams.add({ name, subjects: [name] });
      await jsm.consumers.add(name, { durable_name: "work", ack_policy: AckPolicy.Explicit });
      const errors: string[] = [];
      const latchkey = createLatchkey({
        store: memoryStore(),
        onEvent: (event) => {
          if (event.type === "service_error") errors.push(`${event.service}: ${event.error}`);
        },
      });
      const operation = latchkey.operation("op");
      const consumer = natsConsumer(
        latchkey,
        operation,
        { tenant: "t", source: name, consumer: await js.consumers.get(name, "work") },
        ({ tx }) => tx.insert("orders", {}),
      );
      await js.publish(name, "{}", { msgID: "first" });
      await until(() => consumer.counts().executed === 1, { what: "it consumes" });
      if (deleted === "stream") await jsm.streams.delete(name);
      else await jsm.consumers.delete(name, "work");
      await until(() => errors.some((text) => text.startsWith(`consumer of ${name}: Error: The server`)));
      await consumer.stop();
      await connection.close();
    });
  });
});

test("the real client's types fit", () => {
  expectTypeOf<Consumer>().toExtend<NatsConsumer>();
  expectTypeOf<JetStreamClient>().toExtend<NatsJetStream>();
});

test("what is out of range is refused at construction", () => {
  const latchkey = createLatchkey({ store: memoryStore() });
  const operation = latchkey.operation("op");
  const consumer = { consume: () => Promise.reject(new Error("not reached")) };
  const make = (options: object) =>
    natsConsumer(latchkey, operation, { tenant: "t", consumer, ...options }, async () => {});
  expect(() => make({ consumer: {} })).toThrow(TypeError);
  expect(() => make({ concurrency: 0 })).toThrow(TypeError);
  expect(() => make({ workingMs: 1.5 })).toThrow(TypeError);
  expect(() => natsRelay(latchkey, "x", { jetstream: {} as never, subject: () => "s" })).toThrow(TypeError);
});
