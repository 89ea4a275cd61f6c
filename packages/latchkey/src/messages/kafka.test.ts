/**
 * Kafka, over both clients: what the consumer withstands, and what the relay publishes. Unless LATCHKEY_KAFKA_URL names a
 * broker, on librdkafka's mock cluster.
 */
import { type Consumer, Producer } from "@platformatic/kafka";
import { Kafka, type Consumer as KafkaJsRealConsumer, type Producer as KafkaJsRealProducer } from "kafkajs";
import { beforeAll, beforeEach, describe, expect, expectTypeOf, type TestContext, test } from "vitest";
import {
  kafkaAt,
  kafkaJs,
  type OpenConsumer,
  openKafkaJs,
  openPlatformatic,
  platformatic,
} from "../../../../test/brokers/kafka.ts";
import { type Announced, startRelays } from "../../../../test/brokers/relays.ts";
import { brokerFaults } from "../../../../test/brokers/suite.ts";
import { type KafkaCluster, startKafka } from "../../../../test/kafka/cluster.ts";
import { isThorough } from "../../../../test/support/thorough.ts";
import { until } from "../../../../test/support/until.ts";
import { createLatchkey } from "../latchkey.ts";
import { systemPorts } from "../ports.ts";
import { type MemoryTransaction, memoryStore } from "../stores/memory.ts";
import type { LatchkeyEvent } from "../telemetry/events.ts";
import { faultyStore } from "../testing/index.ts";
import type { MessageConsumer } from "./broker.ts";
import type { MessageHandler } from "./inbox.ts";
import {
  type KafkaConsumerOptions,
  type KafkaJsConsumer,
  type KafkaJsProducer,
  kafkaConsumer,
  kafkaRelay,
  type PlatformaticConsumer,
  type PlatformaticProducer,
} from "./kafka.ts";

type Input = { readonly order: string };
type Handler = MessageHandler<MemoryTransaction, "transaction", Input>;

const clients = [
  { name: "KafkaJS", driver: kafkaJs, open: openKafkaJs },
  { name: "@platformatic/kafka", driver: platformatic, open: openPlatformatic },
] as const;

const patient = { timeoutMs: 30_000 } as const;

const ship: Handler = async ({ tx, input }) => {
  await tx.insert("shipments", { order: input.order });
};

for (const { name, driver, open } of clients) {
  describe.concurrent(name, () => {
    brokerFaults(driver, () => {});

    describe("one partition, over the memory store", () => {
      let shared: KafkaCluster | undefined;
      beforeAll(async () => {
        shared = await startKafka();
      });
      beforeEach(({ skip }) => {
        if (shared === undefined) skip("there is no Kafka");
      });

      function closingAfter({ onTestFinished }: TestContext) {
        const closing: (() => Promise<unknown>)[] = [];
        onTestFinished(async () => {
          for (const close of closing.reverse()) await close();
        });
        return closing;
      }

      async function setUp(context: TestContext, cluster = shared as KafkaCluster) {
        const closing = closingAfter(context);
        const { url, proxy } = cluster;
        const topic = `orders-${systemPorts.random.token()}`;
        const kafka = kafkaAt(url);
        const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
        const admin = kafka.admin();
        await Promise.all([producer.connect(), admin.connect()]);
        closing.push(() => Promise.all([producer.disconnect(), admin.disconnect()]));
        await admin.fetchTopicMetadata({ topics: [topic] });
        const memory = memoryStore();
        let down = false;
        let calls = 0;
        const { store } = faultyStore(memory, () => {
          calls += 1;
          return down ? "not_sent" : "proceed";
        });
        const events: LatchkeyEvent[] = [];
        const latchkey = createLatchkey({ store, onEvent: (one) => events.push(one) });
        const operation = latchkey.operation("shipments.create");
        return {
          admin,
          topic,
          events,
          proxy,
          calls: () => calls,
          fail: (failing: boolean) => {
            down = failing;
          },
          rows: () => memory.rows("shipments").map(({ order }) => order),
          dead: async () =>
            (await memory.messages?.list({ operation: null, tenant: null, limit: 100, after: null })) ?? [],
          publish: (orders: readonly string[], partition = 0) =>
            producer.send({
              topic,
              messages: orders.map((order) => ({
                partition,
                value: JSON.stringify({ order }),
                headers: { "message-id": order },
              })),
            }),
          committed: async (partition = 0) => {
            const [group] = await admin.fetchOffsets({ groupId: topic, topics: [topic] });
            return Number(group?.partitions.find((one) => one.partition === partition)?.offset);
          },
          async consume(handler: Handler, options: Partial<KafkaConsumerOptions<Input>> = {}) {
            const { consumer, close }: OpenConsumer = await open(url, topic);
            const running: MessageConsumer = kafkaConsumer(
              latchkey,
              operation,
              { tenant: "shop", backoffMs: 50, ...options, consumer, topics: [topic] },
              handler,
            );
            let over: Promise<void> | undefined;
            const stop = () => {
              over ??= running.stop().then(close);
              return over;
            };
            closing.push(stop);
            return { counts: () => running.counts(), stop };
          },
        };
      }

      test("nothing behind an unsettled message is run or committed, and the other partitions go on", async (context) => {
        const { publish, consume, committed, rows } = await setUp(context);
        let fails = true;
        const { counts } = await consume(
          async (given) => {
            if (given.input.order === "b" && fails) throw new Error("not yet");
            await ship(given);
          },
          { failuresMax: 1_000, backoffMs: 200, backoffMaxMs: 200 },
        );
        await publish(["a", "b", "c"]);
        await publish(["x", "y"], 1);
        await until(() => counts().givenBack >= 2, patient);
        await until(async () => (await committed(1)) === 2, patient);
        expect([await committed(), rows().sort()]).toEqual([1, ["a", "x", "y"]]);
        fails = false;
        await until(async () => (await committed()) === 3, patient);
        expect(rows().sort()).toEqual(["a", "b", "c", "x", "y"]);
      });

      test("what was settled and not committed is acknowledged without running, by whoever gets the partition", async (context) => {
        // What it refuses, it refuses to all of its clients.
        const { publish, consume, committed, rows, proxy } = await setUp(context, await startKafka());
        if (proxy === null) return context.skip("the broker is somebody else's");
        const first = await consume(ship);
        proxy.refuseCommits(true);
        await publish(["a"]);
        await until(() => first.counts().executed === 1, patient);
        await first.stop();
        proxy.refuseCommits(false);
        expect(await committed()).toBe(-1);
        const second = await consume(ship);
        await until(async () => (await committed()) === 1, patient);
        expect(second.counts()).toMatchObject({ received: 1, executed: 0, duplicates: 1 });
        expect(rows()).toEqual(["a"]);
      });

      test("a store that is down pauses the partition; nothing spins, nothing is committed, and it goes on", async (context) => {
        const { publish, consume, committed, rows, fail, calls, events } = await setUp(context);
        const { counts } = await consume(ship, { holdMs: 200 });
        fail(true);
        await publish(["a", "b"]);
        await until(() => counts().givenBack >= 3, patient);
        const outage = events.filter(({ type }) => type === "message_given_back");
        expect(outage.every((event) => "because" in event && event.because === "store-unavailable")).toBe(
          true,
        );
        expect(calls(), "tries").toBeLessThan(60);
        expect([await committed(), rows()]).toEqual([-1, []]);
        fail(false);
        await until(async () => (await committed()) === 2, patient);
        expect(rows()).toEqual(["a", "b"]);
      });

      test("stopping settles what runs, and leaves the rest uncommitted", async (context) => {
        const { publish, consume, committed, rows } = await setUp(context);
        const begun = Promise.withResolvers<void>();
        const gate = Promise.withResolvers<void>();
        const { stop, counts } = await consume(async (given) => {
          begun.resolve();
          await gate.promise;
          await ship(given);
        });
        await publish(["a", "b"]);
        await begun.promise;
        const stopped = stop();
        gate.resolve();
        await stopped;
        expect([rows(), await committed(), counts().received]).toEqual([["a"], 1, 1]);
      });

      test("when partitions move while a message runs, every message still runs once", async (context) => {
        const { publish, consume, committed, rows } = await setUp(context);
        const begun = Promise.withResolvers<void>();
        const gate = Promise.withResolvers<void>();
        let runs = 0;
        const slow: Handler = async (given) => {
          runs += 1;
          begun.resolve();
          await gate.promise;
          await ship(given);
        };
        const partitions = [0, 1, 2, 3];
        const first = await consume(slow);
        for (const partition of partitions) await publish([`a${partition}`, `b${partition}`], partition);
        await begun.promise;
        const second = await consume(slow);
        await until(() => second.counts().received > 0, patient);
        gate.resolve();
        await until(async () => {
          const offsets = await Promise.all(partitions.map((partition) => committed(partition)));
          return offsets.every((offset) => offset === 2);
        }, patient);
        expect(rows().sort()).toEqual(partitions.flatMap((one) => [`a${one}`, `b${one}`]).sort());
        expect(runs).toBeLessThanOrEqual(16);
        expect(first.counts().dead + second.counts().dead).toBe(0);
      });

      const joins = isThorough || name !== "KafkaJS";
      test.runIf(joins)(
        "a member that loses its connection while it joins, or joins again, comes back by itself",
        async (context) => {
          const { publish, consume, rows, proxy } = await setUp(context, await startKafka());
          if (proxy === null) return context.skip("the broker is somebody else's");
          const refusedSyncs = async (count: number) => {
            const before = proxy.refuseSyncs(true);
            await until(() => proxy.refuseSyncs(true) >= before + count, patient);
            proxy.refuseSyncs(false);
          };
          const joining = refusedSyncs(6);
          await consume(ship);
          await joining;
          await publish(["a"]);
          await until(() => rows().includes("a"), patient);

          const joiningAgain = refusedSyncs(8);
          await consume(ship);
          await joiningAgain;
          const partitions = [0, 1, 2, 3];
          for (const partition of partitions) await publish([`b${partition}`], partition);
          await until(() => rows().length === 1 + partitions.length, patient);
          expect(rows().sort()).toEqual(["a", ...partitions.map((partition) => `b${partition}`)]);
        },
      );

      test.runIf(isThorough && name !== "KafkaJS")(
        "a member whose heartbeats are refused however often it joins leaves its group, and joins it again",
        async (context) => {
          const { publish, consume, rows, events, proxy } = await setUp(context, await startKafka());
          if (proxy === null) return context.skip("the broker is somebody else's");
          const saysSo = (event: LatchkeyEvent) =>
            event.type === "service_error" && String(event.error).includes("joins it again");
          await consume(ship);
          proxy.refuseHeartbeats(true);
          // Eleven joins, and the broker keeps each of them waiting for three seconds.
          await until(() => events.some(saysSo), { timeoutMs: 120_000 });
          proxy.refuseHeartbeats(false);
          await publish(["a"]);
          await until(() => rows().includes("a"), patient);
        },
      );

      test("by their place, two messages of one body are two; a dead letter's topic that fails is asked again", async (context) => {
        const { publish, consume, committed, dead, rows, events } = await setUp(context);
        let refusals = 2;
        const moved: unknown[] = [];
        const producer = {
          isIdempotent: () => true,
          async send(record: unknown) {
            if (refusals-- > 0) throw new Error("the topic does not take it");
            moved.push(record);
          },
        };
        await consume(
          async (given) => {
            if (given.input.order === "bad") throw new Error("it never succeeds");
            await ship(given);
          },
          { idFrom: "offset", failuresMax: 1, deadLetterTopic: { producer, topic: "dead" } },
        );
        await publish(["a", "a", "bad", "b"]);
        await until(async () => (await committed()) === 4, patient);
        expect(rows()).toEqual(["a", "a", "b"]);
        expect((await dead()).map(({ reason }) => reason)).toEqual(["failed"]);
        expect(events.filter(({ type }) => type === "service_error")).toHaveLength(2);
        expect(moved).toMatchObject([{ topic: "dead", acks: -1 }]);
      });

      test("a relay publishes under the downstream key, with its aggregate's key", async (context) => {
        const closing = closingAfter(context);
        const { url } = shared as KafkaCluster;
        const topic = `orders-${systemPorts.random.token()}`;
        const admin = kafkaAt(url).admin();
        await admin.connect();
        closing.push(() => admin.disconnect());
        await admin.fetchTopicMetadata({ topics: [topic] });
        const kafkaJsProducer = kafkaAt(url).producer({ idempotent: true, maxInFlightRequests: 1 });
        const producer =
          name === "KafkaJS"
            ? kafkaJsProducer
            : new Producer({ clientId: "latchkey-test", bootstrapBrokers: [url] });
        if (producer === kafkaJsProducer) await kafkaJsProducer.connect();
        closing.push(async () => {
          if (producer instanceof Producer) await producer.close();
          else await producer.disconnect();
        });
        const { place, dispatch } = startRelays((latchkey) =>
          kafkaRelay<never, Announced>(latchkey, "orders.created", {
            producer,
            route: ({ order }) => ({ topic, key: order, headers: { tag: order } }),
          }),
        );
        const id = await place("a");
        expect(await dispatch()).toMatchObject({ delivered: 1 });
        const reader = kafkaAt(url).consumer({ groupId: topic, maxWaitTimeInMs: 100 });
        await reader.connect();
        closing.push(() => reader.disconnect());
        await reader.subscribe({ topics: [topic], fromBeginning: true });
        const read: unknown[] = [];
        await reader.run({
          eachMessage: async ({ message: { key, value, headers = {} } }) => {
            const named = Object.entries(headers).map(([header, one]) => [header, String(one)]);
            read.push({ key: String(key), value: String(value), headers: Object.fromEntries(named) });
          },
        });
        await until(() => read.length === 1, patient);
        expect(read).toEqual([
          {
            key: "a",
            value: '{"order":"a"}',
            headers: { tag: "a", "content-type": "application/json", "message-id": id },
          },
        ]);
      });
    });
  });
}

test("the real clients' types fit", () => {
  expectTypeOf<KafkaJsRealConsumer>().toExtend<KafkaJsConsumer>();
  expectTypeOf<KafkaJsRealProducer>().toExtend<KafkaJsProducer>();
  expectTypeOf<Consumer>().toExtend<PlatformaticConsumer>();
  expectTypeOf<Producer>().toExtend<PlatformaticProducer>();
});

test("what is out of range is refused at construction", async () => {
  const latchkey = createLatchkey({ store: memoryStore() });
  const operation = latchkey.operation("op");
  const unused = new Kafka({ brokers: ["127.0.0.1:1"] });
  const consumer = unused.consumer({ groupId: "g" });
  const plain = unused.producer();
  const make = (options: object) =>
    kafkaConsumer(latchkey, operation, { tenant: "t", consumer, topics: ["a"], ...options }, async () => {});
  expect(() => make({ consumer: {} })).toThrow(TypeError);
  expect(() => make({ topics: [] })).toThrow(TypeError);
  expect(() => make({ topics: [""] })).toThrow(TypeError);
  expect(() => make({ concurrency: 0 })).toThrow(TypeError);
  expect(() => make({ idFrom: { header: "" } })).toThrow(TypeError);
  expect(() => make({ idFrom: null })).toThrow(TypeError);
  expect(() => make({ deadLetterTopic: { producer: {}, topic: "dead" } })).toThrow(TypeError);
  expect(() => make({ deadLetterTopic: { producer: plain, topic: "dead" } })).toThrow(/idempotent: true/);
  const route = () => ({ topic: "a", key: "k" });
  expect(() => kafkaRelay(latchkey, "x", { producer: {} as never, route })).toThrow(TypeError);
  expect(() => kafkaRelay(latchkey, "x", { producer: plain, route })).toThrow(/idempotent: true/);
});
