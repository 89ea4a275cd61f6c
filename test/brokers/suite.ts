/** What a consumer must withstand, on a real broker with a real database. */

import { afterAll, beforeAll, beforeEach, expect, type TestContext, test } from "vitest";
import { migratedDatabase, openPool } from "../postgres/harness.ts";
import type { WorkerProcess } from "../support/processes.ts";
import { isThorough } from "../support/thorough.ts";
import { until } from "../support/until.ts";
import type { ConsumerSettings } from "./consumer-process.ts";
import type { BrokerDriver, Sent } from "./driver.ts";
import { type BrokerLab, deadWithin, finish, type Inboxes, order, startInboxes } from "./inboxes.ts";
import { sparedBecause, survive } from "./survive.ts";

const patient = { timeoutMs: 30_000 } as const;
/** Runs `tests` with a broker and a database, or says that they were not run. */
function withBroker(driver: BrokerDriver, tests: (lab: () => BrokerLab) => void): void {
  let lab: BrokerLab | undefined;
  beforeAll(async () => {
    const broker = await driver.start();
    if (broker === undefined) return;
    const databaseUrl = await migratedDatabase();
    lab = { broker, url: broker.url, databaseUrl, pool: openPool(databaseUrl) };
  });
  afterAll(async () => {
    await lab?.pool.end();
    await lab?.broker.own?.stop();
  });
  beforeEach(({ skip }) => {
    if (lab === undefined) skip("there is no broker");
  });
  tests(() => lab as BrokerLab);
}

interface BrokerCase {
  readonly name: string;
  /** Its consumers share transactions. */
  readonly batchSize?: number;
  /** With a queue and a table of its own. */
  run(given: Inboxes): Promise<void>;
}

/** A queue with `a`, `b` and `c` behind a message that holds a consumer's first transaction until all have come. */
async function gathered({ publish, spawn }: Inboxes, change: Partial<ConsumerSettings>, last: Sent) {
  await publish([order("gate", "wait"), order("a"), order("b"), last]);
  const worker = await spawn(change);
  for (const name of ["gate", "a", "b", "c"]) await worker.line((line) => line.read === name, 30_000);
  await worker.line((line) => line.waiting === "gate", 30_000);
  worker.send("go on");
  return worker;
}

/** Spawns a consumer after each that a message kills, until that message is dead. Returns the last one. */
async function untilDead({ spawn, dead }: Inboxes, first: WorkerProcess): Promise<WorkerProcess> {
  let worker = first;
  for (let deaths = 0; (await dead()).length === 0; ) {
    const died = await Promise.race([worker.exited.then(() => true), deadWithin(dead)]);
    if (!died) continue;
    deaths += 1;
    expect(deaths).toBeLessThan(6);
    worker = await spawn();
  }
  return worker;
}

const killsItsProcess: BrokerCase["run"] = async (given) => {
  const { publish, spawn, dead, rows, left } = given;
  await publish([order("a"), order("killer", "kill"), order("b"), order("c")]);
  const worker = await untilDead(given, await spawn());
  await until(async () => (await rows()).length === 3, { what: "the others are there", ...patient });
  await finish(worker, left);
  expect((await dead()).map(({ key, reason }) => [key, reason])).toEqual([["killer", "kills-its-process"]]);
  expect((await rows()).sort()).toEqual(["a", "b", "c"]);
};

const cases: readonly BrokerCase[] = [
  {
    name: "every message's row exactly once: duplicates, killed consumers, a broker that is killed",
    async run(given) {
      await survive(given);
    },
  },
  {
    name: "a consumer dies between COMMIT and acknowledgement: replayed, one row",
    async run(given) {
      const { publish, spawn, rows, left } = given;
      const first = await spawn({ dieAfterCommit: 1 });
      await publish([order("a")]);
      expect(await first.exited).toMatchObject({ signal: "SIGKILL" });
      expect(await rows()).toEqual(["a"]);
      const second = await spawn();
      await second.line((line) => line.replayed === true, 30_000);
      const counts = await finish(second, left);
      expect(counts.executed).toBe(0);
      // On a machine with much else to do the broker may take it for lost once more.
      expect(counts.duplicates).toBeGreaterThanOrEqual(1);
      expect(await rows()).toEqual(["a"]);
    },
  },
  {
    name: "a frozen consumer keeps no message, and cannot commit when it thaws",
    async run(given) {
      const { publish, spawn, rows, left } = given;
      const frozen = await spawn({ transactionLimitMs: 1_000 });
      await publish([order("a", "wait")]);
      await frozen.line((line) => line.waiting === "a");
      await frozen.freeze();
      const second = await spawn();
      await second.line((line) => line.waiting === "a", 30_000);
      second.send("go on");
      await until(async () => (await rows()).length === 1, { what: "its row is there", ...patient });
      frozen.thaw();
      frozen.send("go on");
      await finish(frozen, async () => 0);
      await finish(second, left);
      expect(await rows()).toEqual(["a"]);
    },
  },
  {
    name: "poison is a dead letter after its last try, and the others go on",
    async run(given) {
      const { publish, consume, dead, rows, client, left } = given;
      await publish([order("a", "fail"), { id: null, body: {} }, { id: "x", body: "no order" }, order("b")]);
      const consumer = await consume(async ({ tx, input }) => {
        await tx.query("insert into business values ($1)", [input.order]);
        if (input.trap === "fail") throw new Error("it never succeeds");
      });
      await until(async () => (await dead()).length === 3, { what: "three are dead", timeoutMs: 30_000 });
      await until(() => consumer.counts().executed === 1, patient);
      await consumer.stop();
      expect((await dead()).map(({ reason }) => reason).sort()).toEqual([
        "failed",
        "missing-id",
        "undecodable",
      ]);
      expect(await rows()).toEqual(["b"]);
      expect(await left()).toBe(0);
      expect([3, null]).toContain(await client.putAside());
    },
  },
  {
    name: "a message that kills its process is a dead letter, and takes no neighbour with it",
    run: killsItsProcess,
  },
  {
    name: "a duplicate of a running message waits for it, and does not spin through the broker",
    async run(given) {
      const { publish, consume, rows, driver } = given;
      const gate = Promise.withResolvers<void>();
      let runs = 0;
      const consumer = await consume(async ({ tx, input }) => {
        runs += 1;
        await tx.query("insert into business values ($1)", [input.order]);
        await gate.promise;
      });
      const copies = 3;
      await publish(Array.from({ length: copies }, () => order("a")));
      await until(() => consumer.counts().received >= copies, patient);
      gate.resolve();
      await until(() => consumer.counts().duplicates >= copies - 1, patient);
      await consumer.stop();
      const { received, executed, duplicates, givenBack } = consumer.counts();
      expect({ executed, ended: executed + duplicates + givenBack }).toEqual({
        executed: 1,
        ended: received,
      });
      expect(givenBack).toBeLessThanOrEqual(driver.rebalances ? copies : 0);
      expect([runs, await rows()]).toEqual([1, ["a"]]);
    },
  },
  {
    name: "stopping waits for what runs, gives back what is held, and takes nothing more",
    async run(given) {
      const { publish, consume, rows, driver } = given;
      const size = 2;
      const gate = Promise.withResolvers<void>();
      const begun = Promise.withResolvers<void>();
      const consumer = await consume(
        async ({ tx, input }) => {
          begun.resolve();
          await gate.promise;
          await tx.query("insert into business values ($1)", [input.order]);
        },
        { size },
      );
      await publish([order("a"), order("a"), order("b"), order("c")]);
      await begun.promise;
      await until(() => consumer.counts().received >= size, patient);
      const stopped = consumer.stop();
      gate.resolve();
      await stopped;
      const { executed, givenBack, duplicates, received } = consumer.counts();
      expect(received).toBeLessThanOrEqual(driver.rebalances ? 2 * size : size);
      expect(executed + givenBack + duplicates).toBe(received);
      expect(await rows()).toHaveLength(executed);
      const next = await consume(async ({ tx, input }) => {
        await tx.query("insert into business values ($1)", [input.order]);
      });
      await until(async () => (await rows()).length === 3, {
        what: "the rest is delivered to others",
        ...patient,
      });
      await next.stop();
      expect((await rows()).sort()).toEqual(["a", "b", "c"]);
    },
  },
  {
    name: "in batches: a consumer dies between COMMIT and acknowledgement: all are replayed, one row each",
    batchSize: 10,
    async run(given) {
      const { spawn, rows, left } = given;
      const all = ["a", "b", "c", "gate"];
      // The gate's COMMIT is the first.
      const first = await gathered(given, { dieAfterCommit: 2 }, order("c"));
      expect(await first.exited).toMatchObject({ signal: "SIGKILL" });
      expect((await rows()).sort()).toEqual(all);
      const second = await spawn();
      const replays = () => second.lines.filter((line) => line.replayed === true).length;
      await until(() => replays() >= 3, { what: "all of the batch come again", ...patient });
      expect((await finish(second, left)).executed).toBe(0);
      expect((await rows()).sort()).toEqual(all);
    },
  },
  {
    name: "in batches: a consumer dies before COMMIT: nothing of any message is there, and each runs once more",
    batchSize: 10,
    async run(given) {
      const { spawn, rows, left } = given;
      const first = await gathered(given, {}, order("c", "kill"));
      expect(await first.exited).toMatchObject({ signal: "SIGKILL" });
      expect(await rows()).toEqual(["gate"]);
      const worker = await untilDead(given, await spawn());
      await finish(worker, left);
      expect((await rows()).sort()).toEqual(["a", "b", "gate"]);
    },
  },
  {
    name: "in batches: every message's row exactly once: duplicates, killed consumers, a broker that is killed",
    batchSize: 10,
    run: survive,
  },
  {
    name: "a message that kills its process in a batch is a dead letter, and takes no neighbour with it",
    batchSize: 10,
    run: killsItsProcess,
  },
];

/** Registers the cases for one broker, and what else needs that broker. */
export function brokerFaults(driver: BrokerDriver, more: (lab: () => BrokerLab) => void): void {
  withBroker(driver, (lab) => {
    for (const { name, batchSize, run } of cases.filter((one, index) => isShownBy(driver, one, index))) {
      const because = sparedBecause(driver, name);
      const body = async ({ skip }: TestContext) => {
        if (because !== undefined) return skip(because);
        if (driver.parallel !== true) return run(await startInboxes(driver, lab(), batchSize));
        const databaseUrl = await migratedDatabase();
        await run(
          await startInboxes(driver, { ...lab(), databaseUrl, pool: openPool(databaseUrl) }, batchSize),
        );
      };
      (driver.parallel === true ? test.concurrent : test)(name, body);
    }
    more(lab);
  });
}

/**
 * Each case on one of two brokers, but for the two that take longest, and brokers that are killed on NATS alone: RabbitMQ takes
 * 7 s of CPU to start again. With `npm run test:all` all of them on all.
 */
function isShownBy({ name: broker }: BrokerDriver, { name }: BrokerCase, index: number): boolean {
  if (isThorough) return true;
  if (name.startsWith("a frozen consumer") || name.startsWith("a message that kills")) return false;
  return broker === (index % 2 === 0 || name.includes("a broker that is killed") ? "NATS" : "RabbitMQ");
}
