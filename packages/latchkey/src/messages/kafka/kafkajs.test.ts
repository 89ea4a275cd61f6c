/** Calls on the client while a batch runs, on a clock that the test drives; the rest is tested with the real client. */
import { expect, test } from "vitest";
import { manualPorts } from "../../../../../test/support/manual-ports.ts";
import { createLatchkey } from "../../latchkey.ts";
import { memoryStore } from "../../stores/memory.ts";
import type { KafkaJsBatchPayload, KafkaJsConsumer } from "./client.ts";
import { uncommittedMax } from "./commits.ts";
import { KafkaJsConsuming } from "./kafkajs.ts";
import type { Settling } from "./settling.ts";

async function setUp(take: (offset: bigint) => Promise<number | null>) {
  const ports = manualPorts();
  const { runtime } = createLatchkey({ store: memoryStore({ ports }), ports });
  const log: string[] = [];
  let eachBatch: ((payload: KafkaJsBatchPayload) => Promise<void>) | undefined;
  let joined = () => {};
  let rebalancing: Error | null = null;
  let commitError: Error | null = null;
  const consumer: KafkaJsConsumer = {
    subscribe: async () => {},
    async run(config) {
      ({ eachBatch } = config);
    },
    stop: async () => {},
    pause: (topics) => void log.push(`pause ${JSON.stringify(topics)}`),
    resume: (topics) => void log.push(`resume ${JSON.stringify(topics)}`),
    on(event: string, listener: (event: never) => void) {
      if (event === "consumer.group_join") joined = listener as () => void;
      return () => {};
    },
  };
  const taken: (readonly [bigint, boolean])[] = [];
  const settling = {
    take({ offset }: { offset: bigint }, redelivered: boolean) {
      taken.push([offset, redelivered]);
      return take(offset);
    },
  } as unknown as Settling<unknown>;
  const options = { topics: ["orders"], fromBeginning: true, concurrency: 1 };
  const consuming = new KafkaJsConsuming(runtime as never, consumer, options, settling);
  await consuming.run();
  const payload: KafkaJsBatchPayload = {
    batch: {
      topic: "orders",
      partition: 0,
      messages: ["5", "7"].map((offset) => ({ key: null, value: null, offset })),
      lastOffset: () => "9",
    },
    resolveOffset: (offset) => void log.push(`resolve ${offset}`),
    async heartbeat() {
      log.push("heartbeat");
      if (rebalancing !== null) throw rebalancing;
    },
    async commitOffsetsIfNecessary({ topics }) {
      log.push(`commit ${topics[0]?.partitions[0]?.offset}`);
      if (commitError !== null) throw commitError;
    },
    isRunning: () => true,
    isStale: () => false,
  };
  return {
    clock: ports.clock,
    log,
    taken,
    consuming,
    batch: () => (eachBatch as NonNullable<typeof eachBatch>)(payload),
    join: () => joined(),
    failCommits(error: Error | null) {
      commitError = error;
    },
    rebalance(error: Error) {
      rebalancing = error;
    },
  };
}

test("what only the client sees behind the last message is committed with it", async () => {
  const { batch, log, consuming } = await setUp(async () => null);
  await batch();
  expect(log).toEqual(["resolve 5", "commit 6", "resolve 7", "commit 10"]);
  await consuming.stop();
});

test("a message that has to wait ends its batch and pauses its partition, by timer", async () => {
  const { batch, log, clock } = await setUp(async (offset) => (offset === 7n ? 1_000 : null));
  await batch();
  const place = '[{"topic":"orders","partitions":[0]}]';
  const before = ["resolve 5", "commit 6", `pause ${place}`];
  await clock.advance(999);
  expect(log).toEqual(before);
  await clock.advance(1);
  expect(log).toEqual([...before, `resume ${place}`]);
});

test("behind one that has to wait nothing is run, resolved or committed", async () => {
  const { batch, log, taken } = await setUp(async (offset) => (offset === 5n ? 1_000 : null));
  await batch();
  expect(log).toEqual(['pause [{"topic":"orders","partitions":[0]}]']);
  expect(taken, "it may have begun before").toEqual([[5n, true]]);
});

test("stopping ends the pauses, and resumes nothing", async () => {
  const { batch, log, clock, consuming } = await setUp(async () => 1_000);
  await batch();
  await consuming.stop();
  await clock.advance(2_000);
  expect(log.filter((line) => line.startsWith("resume"))).toEqual([]);
});

test("while a message runs the group is notified; a rebalance waits for it, but not for long", async () => {
  const gate = Promise.withResolvers<null>();
  const { batch, log, clock, rebalance } = await setUp(() => gate.promise);
  const ended = batch().then(
    () => "ended",
    (error: unknown) => error,
  );
  let over: unknown;
  void ended.then((how) => {
    over = how;
  });
  await clock.advance(3_000);
  expect(log).toEqual(["heartbeat", "heartbeat", "heartbeat"]);
  const rebalancing = new Error("REBALANCE_IN_PROGRESS");
  rebalance(rebalancing);
  await clock.advance(1_000);
  await clock.advance(4_999);
  expect(over).toBeUndefined();
  await clock.advance(1);
  expect(over).toBe(rebalancing);
  gate.resolve(null);
  await clock.advance(0);
  expect(log, "nothing is resolved or committed").toEqual(Array(4).fill("heartbeat"));
});

test("one that ends while the group waits is committed, and the next one is not begun", async () => {
  const gate = Promise.withResolvers<null>();
  const { batch, log, clock, rebalance } = await setUp(() => gate.promise);
  const ended = batch().catch((error: unknown) => error);
  const rebalancing = new Error("REBALANCE_IN_PROGRESS");
  rebalance(rebalancing);
  await clock.advance(1_000);
  gate.resolve(null);
  expect(await ended).toBe(rebalancing);
  expect(log).toEqual(["heartbeat", "resolve 5", "commit 6"]);
});

test("what was assigned anew while it ran is not committed for the old assignment", async () => {
  const gate = Promise.withResolvers<null>();
  const { batch, log, join, clock, taken } = await setUp(() => gate.promise);
  const ended = batch();
  await clock.advance(0);
  expect(taken).toHaveLength(1);
  join();
  gate.resolve(null);
  await ended;
  expect(log).toEqual([]);
});

test("however many batches there are, so many messages are settled beyond the committed offset, and no more", async () => {
  let taken = 0;
  const { batch, failCommits, log } = await setUp(async () => {
    taken += 1;
    return null;
  });
  failCommits(new Error("no coordinator"));
  for (let round = 0; round < 3 * uncommittedMax; round++)
    await expect(batch()).rejects.toThrow("no coordinator");
  expect(taken).toBe(uncommittedMax);
  failCommits(null);
  await batch();
  expect([taken, log.at(-1)]).toEqual([uncommittedMax + 2, "commit 10"]);
});
