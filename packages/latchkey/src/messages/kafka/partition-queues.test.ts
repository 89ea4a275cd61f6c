/** Partition queues on a clock that the test drives: what waits for what, and what is committed when an assignment ends. */
import { expect, test } from "vitest";
import { manualPorts } from "../../../../../test/support/manual-ports.ts";
import { createLatchkey } from "../../latchkey.ts";
import { memoryStore } from "../../stores/memory.ts";
import type { LatchkeyEvent } from "../../telemetry/events.ts";
import { PartitionQueues } from "./partition-queues.ts";
import type { KafkaRecord } from "./record.ts";
import type { Settling } from "./settling.ts";

function recordAt(partition: number, offset: number): KafkaRecord {
  const nothing = { key: null, value: null, headers: [], leaderEpoch: 0 } as const;
  return { topic: "orders", partition, offset: BigInt(offset), ...nothing };
}

const nameOf = ({ partition, offset }: KafkaRecord) => `${partition}:${offset}`;

function setUp(concurrency = 20) {
  const ports = manualPorts();
  const events: LatchkeyEvent[] = [];
  const latchkey = createLatchkey({
    store: memoryStore({ ports }),
    ports,
    onEvent: (one) => events.push(one),
  });
  const taken: string[] = [];
  const flags: boolean[] = [];
  const commits: { name: string; succeed: () => void; fail: (error: Error) => void }[] = [];
  /** By record: how its next takes end; without any, it is settled. */
  const answers = new Map<string, (number | null | Promise<null>)[]>();
  const settling = {
    take: async (record: KafkaRecord, redelivered: boolean) => {
      taken.push(nameOf(record));
      flags.push(redelivered);
      return (await answers.get(nameOf(record))?.shift()) ?? null;
    },
  } as unknown as Settling<unknown>;
  const queues = new PartitionQueues(
    latchkey.runtime as never,
    settling,
    concurrency,
    ({ partition }) =>
      (offset) =>
        new Promise<void>((succeed, fail) => {
          commits.push({ name: `${partition}:${offset}`, succeed, fail });
        }),
  );
  return { queues, taken, flags, commits, answers, events, clock: ports.clock };
}

test("one that has to wait is not taken again before its pause is over, nor is what is behind it", async () => {
  const { queues, taken, answers, clock, commits } = setUp();
  answers.set("0:0", [1_000, 1_000]);
  for (const [partition, offset] of [
    [0, 0],
    [0, 1],
    [1, 0],
  ] as const)
    await queues.add(recordAt(partition, offset));
  await clock.advance(999);
  expect(taken).toEqual(["0:0", "1:0"]);
  await clock.advance(1);
  await clock.advance(999);
  expect(taken).toEqual(["0:0", "1:0", "0:0"]);
  expect(commits.map(({ name }) => name)).toEqual(["1:1"]);
  await clock.advance(1);
  expect(taken).toEqual(["0:0", "1:0", "0:0", "0:0", "0:1"]);
});

test("the first ones of an assignment may have begun before, and the inbox is notified", async () => {
  const { queues, flags, clock, commits } = setUp();
  for (let offset = 0; offset < 103; offset++) await queues.add(recordAt(0, offset));
  await clock.advance(0);
  for (let commit = 0; commit < commits.length; commit++) {
    commits[commit]?.succeed();
    await clock.advance(0);
  }
  expect([flags.length, flags.indexOf(false)]).toEqual([103, 101]);
  await queues.drop();
});

test("no more than so many partitions at once", async () => {
  const { queues, taken, answers, clock } = setUp(2);
  const gate = Promise.withResolvers<null>();
  for (const partition of [0, 1, 2]) {
    answers.set(`${partition}:0`, [gate.promise]);
    await queues.add(recordAt(partition, 0));
  }
  await clock.advance(0);
  expect(taken).toEqual(["0:0", "1:0"]);
  gate.resolve(null);
  await clock.advance(0);
  expect(taken).toEqual(["0:0", "1:0", "2:0"]);
});

test("memory is bounded: from a limit on nothing more is taken in until something is settled", async () => {
  const { queues, answers, clock } = setUp();
  const gate = Promise.withResolvers<null>();
  answers.set("0:0", [gate.promise]);
  let added = 0;
  void (async () => {
    for (let offset = 0; offset < 600; offset++) {
      await queues.add(recordAt(0, offset));
      added += 1;
    }
  })();
  await clock.advance(0);
  expect(added).toBe(499);
  gate.resolve(null);
  // A hundred are settled while the first commit hangs, and no more.
  await clock.advance(0);
  expect(added).toBe(599);
  await queues.drop();
});

test("finishing waits for what runs and for its commit; dropping commits nothing more", async () => {
  for (const end of ["finish", "drop"] as const) {
    const { queues, taken, answers, clock, commits } = setUp();
    const gate = Promise.withResolvers<null>();
    answers.set("0:0", [gate.promise]);
    await queues.add(recordAt(0, 0));
    await queues.add(recordAt(0, 1));
    await clock.advance(0);
    let over = false;
    const ending = queues[end]().then(() => {
      over = true;
    });
    await clock.advance(0);
    expect(over).toBe(false);
    gate.resolve(null);
    await clock.advance(0);
    expect([over, commits.map(({ name }) => name)]).toEqual(end === "drop" ? [true, []] : [false, ["0:1"]]);
    commits[0]?.succeed();
    await ending;
    expect(taken).toEqual(["0:0"]);
  }
});

test("a commit that fails is reported and made again after a pause, and nothing runs meanwhile", async () => {
  const { queues, taken, clock, commits, events } = setUp();
  await queues.add(recordAt(0, 0));
  await clock.advance(0);
  commits[0]?.fail(new Error("no coordinator"));
  await clock.advance(0);
  await queues.add(recordAt(0, 1));
  await clock.advance(999);
  expect([taken, events.filter(({ type }) => type === "service_error").length]).toEqual([["0:0"], 1]);
  await clock.advance(1);
  expect([taken, commits.map(({ name }) => name)]).toEqual([
    ["0:0", "0:1"],
    ["0:1", "0:2"],
  ]);
});
