/** NATS JetStream: what its consumer withstands on a real server, and what its relay publishes. */
import { EventEmitter, on } from "node:events";
import {
  AckPolicy,
  type Consumer,
  type JetStreamClient,
  type JsMsg,
  jetstream,
  jetstreamManager,
} from "@nats-io/jetstream";
import { connect, createInbox, type NatsConnection, nanos } from "@nats-io/transport-node";
import { describe, expect, expectTypeOf, test } from "vitest";
import { nats } from "../../../../test/brokers/drivers.ts";
import { order, startInboxes } from "../../../../test/brokers/inboxes.ts";
import { startRelays } from "../../../../test/brokers/relays.ts";
import { brokerFaults } from "../../../../test/brokers/suite.ts";
import { onRelease } from "../../../../test/support/resources.ts";
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
      const { place, dispatch } = startRelays((latchkey) =>
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

    // Servers up to 2.10.12 do this if they have to deliver a message again and find only requests of consumers that are
    // gone: nats-io/nats-server#5305.
    test("a message of a consumer that died is redelivered, even if the server delivers it as new", async () => {
      const { queue, publish, spawn, consume, rows } = await startInboxes(nats, lab(), undefined);
      const ackWait = await ackWaits(lab().url, queue);
      const died = await spawn();
      await publish([order("a", "kill")]);
      expect(await died.exited).toMatchObject({ signal: "SIGKILL" });
      await ackWait.isOver();
      const runs: boolean[] = [];
      const consumer = await consume(async ({ tx, input, message }) => {
        runs.push(message.redelivered);
        await tx.query("insert into business values ($1)", [input.order]);
      });
      await until(async () => (await rows()).length === 1, { what: "it has run" });
      await consumer.stop();
      expect(runs).toEqual([true]);
    });

    test("so many messages as another consumer has not acknowledged are taken for redelivered", async () => {
      const { publish, consume, runs } = await withHeld(lab().url, 2);
      const consumer = consume((own) => own);
      await publish(4);
      await until(() => runs.length === 4, { what: "all have run" });
      await consumer.stop();
      expect(runs.sort()).toEqual(["2 again", "3 again", "4 new", "5 new"]);
    });

    test("if the server does not say how many, all messages are taken for redelivered at first", async () => {
      const { publish, consume, runs } = await withHeld(lab().url, 0);
      const consumer = consume((own) => ({
        info: () => Promise.reject(new Error("permissions violation")),
        consume: (options) => own.consume(options),
      }));
      await publish(2);
      await until(() => runs.length === 2, { what: "both have run" });
      await consumer.stop();
      expect(runs.sort()).toEqual(["0 again", "1 again"]);
    });

    test("stopping does not wait for the answer of a server that cannot be reached", async () => {
      const connection = await connect({ servers: lab().url });
      onRelease(() => connection.close());
      const own = await consumerOn(connection, `silent-${systemPorts.random.token()}`);
      const latchkey = createLatchkey({ store: memoryStore() });
      const never = new Promise<never>(() => {});
      const consumer = natsConsumer(
        latchkey,
        latchkey.operation("op"),
        { tenant: "t", consumer: { info: () => never, consume: (options) => own.consume(options) } },
        async () => {},
      );
      await consumer.stop();
    });

    test.each([
      ["this consumer", "pull", ["0 new", "2 new"]],
      ["another one", "take", ["0 new"]],
    ] as const)(
      "a message that %s had is redelivered while the consumer runs, even if the server delivers it as new",
      async (_, having, before) => {
        const { consumer, runs, publish, stepBack, ...by } = await withStepBack(lab().url);
        await publish(1);
        await by.pull();
        await until(() => consumer.counts().executed === 1, { what: "the first has run" });
        await publish(2);
        const first = await by.take();
        await by[having]();
        await until(() => consumer.counts().givenBack === before.length - 1, { what: "it is given back" });
        await stepBack(first);
        await by.pull();
        await until(() => runs.length > before.length, { what: "it has come" });
        await consumer.stop();
        expect(runs).toEqual([...before, expect.stringMatching(/ again$/)]);
      },
    );

    test("a message that another consumer had is redelivered even if this one has had none since its start", async () => {
      const { consumer, runs, started, publish, take, stepBack, pull } = await withStepBack(lab().url);
      await started;
      await publish(3);
      const first = await take();
      await take();
      await take();
      await stepBack(first);
      await pull();
      await until(() => runs.length > 0, { what: "it has come" });
      await consumer.stop();
      expect(runs).toEqual([expect.stringMatching(/ again$/)]);
    });
  });
});

/** A stream of which one client holds `held` messages, and the runs of the others, by their numbers. */
async function withHeld(url: string, held: number) {
  const connection = await connect({ servers: url });
  onRelease(() => connection.close());
  const [js, jsm] = [jetstream(connection), await jetstreamManager(connection)];
  const name = `held-${systemPorts.random.token()}`;
  await jsm.streams.add({ name, subjects: [name] });
  await jsm.consumers.add(name, { durable_name: "work", ack_policy: AckPolicy.Explicit });
  const own = await js.consumers.get(name, "work");
  let published = 0;
  const publish = async (count: number) => {
    for (let at = 0; at < count; at++) await js.publish(name, "{}", { msgID: String(published++) });
  };
  await publish(held);
  for (let at = 0; at < held; at++) expect(await own.next()).not.toBeNull();
  const runs: string[] = [];
  const latchkey = createLatchkey({ store: memoryStore() });
  return {
    publish,
    runs,
    consume: (through: (own: NatsConsumer) => NatsConsumer) =>
      natsConsumer(
        latchkey,
        latchkey.operation("op"),
        { tenant: "t", consumer: through(own) },
        async ({ message }) => {
          runs.push(`${message.id} ${message.redelivered ? "again" : "new"}`);
        },
      ),
  };
}

/**
 * A consumer that gets a message when the test says so, and fails with the third. `stepBack` makes a server up to 2.10.12
 * deliver the stream's last message as new: it has to redeliver `given`, and has only requests of a client that is gone.
 */
async function withStepBack(url: string) {
  const connection = await connect({ servers: url });
  onRelease(() => connection.close());
  const name = `step-back-${systemPorts.random.token()}`;
  const own = await consumerOn(connection, name);
  const js = jetstream(connection);
  const runs: string[] = [];
  const latchkey = createLatchkey({ store: memoryStore() });
  const { through, pull, started } = onDemand(own);
  const consumer = natsConsumer(
    latchkey,
    latchkey.operation("op"),
    { tenant: "t", consumer: through, backoffMs: 60_000 },
    async ({ tx, message }) => {
      runs.push(`${message.id} ${message.redelivered ? "again" : "new"}`);
      await tx.insert("orders", {});
      if (message.id === "2") throw new Error("it does not work");
    },
  );
  let published = 0;
  return {
    consumer,
    runs,
    started,
    pull,
    take: () => nextOf(own),
    async publish(count: number) {
      for (let at = 0; at < count; at++) await js.publish(name, "{}", { msgID: String(published++) });
    },
    async stepBack(given: JsMsg) {
      await requestsOfTheGone(url, name);
      given.nak(10);
      await serverWaits(connection, 200);
    },
  };
}

async function consumerOn(connection: NatsConnection, name: string): Promise<Consumer> {
  const jsm = await jetstreamManager(connection);
  await jsm.streams.add({ name, subjects: [name] });
  await jsm.consumers.add(name, { durable_name: "work", ack_policy: AckPolicy.Explicit });
  return jetstream(connection).consumers.get(name, "work");
}

async function nextOf(consumer: Consumer): Promise<JsMsg> {
  const message = await consumer.next();
  if (message === null) throw new Error("there is no message");
  return message;
}

/** Resolves when the server has delayed the redelivery of a message so long. */
async function serverWaits(connection: NatsConnection, ms: number): Promise<void> {
  const name = `clock-${systemPorts.random.token()}`;
  const consumer = await consumerOn(connection, name);
  await jetstream(connection).publish(name, "");
  (await nextOf(consumer)).nak(ms);
  await nextOf(consumer);
}

/** The consumer without the client's own requests, which would be there when the server looks for one. */
function onDemand(own: Consumer) {
  const pulls = new EventEmitter();
  const started = Promise.withResolvers<void>();
  const ended = new AbortController();
  const asked = on(pulls, "pull", { signal: ended.signal });
  async function* messages() {
    for (;;) {
      const next = await asked.next().catch(() => null);
      if (next === null || next.done === true) return;
      const message = await own.next();
      if (message !== null) yield message;
    }
  }
  const through: NatsConsumer = {
    info: () => own.info(),
    async consume() {
      started.resolve();
      return Object.assign(messages(), {
        close: async () => ended.abort(),
        async *status() {},
      });
    },
  };
  return { through, started: started.promise, pull: async () => pulls.emit("pull") };
}

/** Requests that the server keeps although nobody waits for their messages any more. */
async function requestsOfTheGone(url: string, name: string): Promise<void> {
  const gone = await connect({ servers: url });
  const inbox = createInbox();
  gone.subscribe(inbox);
  const request = JSON.stringify({ batch: 20, expires: nanos(60_000) });
  for (let count = 0; count < 5; count++)
    gone.publish(`$JS.API.CONSUMER.MSG.NEXT.${name}.work`, request, { reply: inbox });
  await gone.flush();
  await gone.close();
}

/** Tells when a message has waited for its acknowledgement as long as the server lets it: by another message, on this server. */
async function ackWaits(url: string, queue: string) {
  const connection = await connect({ servers: url });
  onRelease(() => connection.close());
  const [js, jsm] = [jetstream(connection), await jetstreamManager(connection)];
  const { config } = await jsm.consumers.info(queue, "work");
  const name = `${queue}-clock`;
  await jsm.streams.add({ name, subjects: [name] });
  await jsm.consumers.add(name, {
    durable_name: "work",
    ack_policy: AckPolicy.Explicit,
    ack_wait: config.ack_wait ?? nanos(30_000),
  });
  return {
    /** Resolves when a message that was delivered before this call has waited so long. */
    async isOver(): Promise<void> {
      await js.publish(name, "");
      const consumer = await js.consumers.get(name, "work");
      for await (const { redelivered } of await consumer.consume()) if (redelivered) return;
    },
  };
}

test("the real client's types fit", () => {
  expectTypeOf<Consumer>().toExtend<NatsConsumer>();
  expectTypeOf<JetStreamClient>().toExtend<NatsJetStream>();
});

test("what is out of range is refused at construction", () => {
  const latchkey = createLatchkey({ store: memoryStore() });
  const operation = latchkey.operation("op");
  const notReached = () => Promise.reject(new Error("not reached"));
  const consumer = { info: notReached, consume: notReached };
  const make = (options: object) =>
    natsConsumer(latchkey, operation, { tenant: "t", consumer, ...options }, async () => {});
  expect(() => make({ consumer: {} })).toThrow(TypeError);
  expect(() => make({ consumer: undefined })).toThrow(TypeError);
  expect(() => make({ consumer: { consume: notReached } })).toThrow("with `consume` and `info`");
  expect(() => make({ concurrency: 0 })).toThrow(TypeError);
  expect(() => make({ workingMs: 1.5 })).toThrow(TypeError);
  expect(() => natsRelay(latchkey, "x", { jetstream: {} as never, subject: () => "s" })).toThrow(TypeError);
});
