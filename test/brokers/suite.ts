/** What a consumer must withstand, on a real broker with a real database. */

import { randomBytes, randomUUID } from "node:crypto";
import { join } from "node:path";
import type pg from "pg";
import { afterAll, beforeAll, beforeEach, expect, type TestContext, test } from "vitest";
import {
  createLatchkey,
  type InboxOptions,
  type Latchkey,
  type MessageHandler,
  type Operation,
} from "../../packages/latchkey/src/index.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { committedRows, migratedDatabase, openPool } from "../postgres/harness.ts";
import { drawFrom } from "../proof/harness/seeded.ts";
import { notRun } from "../support/not-run.ts";
import type { Broker } from "../support/private-brokers.ts";
import { spawnWorker, type WorkerProcess } from "../support/processes.ts";
import { onRelease } from "../support/resources.ts";
import { isProof, isThorough } from "../support/thorough.ts";
import { until } from "../support/until.ts";
import type { ConsumerSettings, Order } from "./consumer-process.ts";
import type { BrokerClient, BrokerDriver, Sent } from "./driver.ts";

const script = join(import.meta.dirname, "consumer-process.ts");
const patient = { timeoutMs: 30_000 } as const;
/** How much goes through, and what befalls it meanwhile, at moments that the seed draws. */
const usualVolume = isProof
  ? { messages: 20_000, kills: 12, restarts: 4, limitMs: 600_000 }
  : { messages: isThorough ? 400 : 150, kills: isThorough ? 2 : 1, restarts: 1, limitMs: 180_000 };

function volumeOf({ volume }: BrokerDriver): typeof usualVolume {
  return isProof ? usualVolume : { ...usualVolume, ...volume };
}

export interface BrokerLab {
  readonly broker: Broker;
  readonly url: string;
  readonly pool: pg.Pool;
  readonly databaseUrl: string;
}

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
  /** With a queue and a table of its own. */
  run(given: Town): Promise<void>;
}

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
      const first = await spawn({ dieAfterCommit: true });
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
        if (input.trap === "fail") throw new Error("it never works");
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
    async run(given) {
      const { publish, spawn, dead, rows, left } = given;
      await publish([order("a"), order("killer", "kill"), order("b"), order("c")]);
      let worker = await spawn();
      for (let deaths = 0; (await dead()).length === 0; ) {
        const died = await Promise.race([worker.exited.then(() => true), deadWithin(dead)]);
        if (!died) continue;
        deaths += 1;
        expect(deaths).toBeLessThan(6);
        worker = await spawn();
      }
      await until(async () => (await rows()).length === 3, { what: "the others are there", ...patient });
      await finish(worker, left);
      expect((await dead()).map(({ key, reason }) => [key, reason])).toEqual([
        ["killer", "kills-its-process"],
      ]);
      expect((await rows()).sort()).toEqual(["a", "b", "c"]);
    },
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
];

/** Registers the cases for one broker, and what else needs that broker. */
export function brokerFaults(driver: BrokerDriver, more: (lab: () => BrokerLab) => void): void {
  withBroker(driver, (lab) => {
    for (const { name, run } of cases.filter((one, index) => isShownBy(driver, one, index))) {
      const because = sparedBecause(driver, name);
      const body = async ({ skip }: TestContext) => {
        if (because !== undefined) return skip(because);
        if (driver.parallel !== true) return run(await town(driver, lab()));
        const databaseUrl = await migratedDatabase();
        await run(await town(driver, { ...lab(), databaseUrl, pool: openPool(databaseUrl) }));
      };
      (driver.parallel === true ? test.concurrent : test)(name, body);
    }
    more(lab);
  });
}

/** Each case on one of two brokers, but for the two that take longest; with `npm run test:all` all of them on all. */
function isShownBy({ name: broker }: BrokerDriver, { name }: BrokerCase, index: number): boolean {
  if (isThorough) return true;
  if (name.startsWith("a frozen consumer") || name.startsWith("a message that kills")) return false;
  return broker === (index % 2 === 0 ? "NATS" : "RabbitMQ");
}

function sparedBecause({ spared = [] }: BrokerDriver, what: string): string | undefined {
  return spared.find(({ words }) => what.includes(words))?.because;
}

function order(name: string, trap?: Order["trap"]): Sent {
  return { id: name, body: trap === undefined ? { order: name } : { order: name, trap } };
}

type Town = Awaited<ReturnType<typeof town>>;

async function town(driver: BrokerDriver, { url, pool, databaseUrl, broker }: BrokerLab) {
  await pool.query("delete from business; delete from latchkey.records; delete from latchkey.messages");
  const queue = `orders-${randomUUID()}`;
  const client: BrokerClient = await driver.connect(url, queue);
  // Else it goes on connecting to the port of a server that is gone, where a test of another file may listen by now.
  onRelease(() => client.close());
  await client.declare();
  const store = postgresStore({ pool, notify: false });
  const latchkey: Latchkey<pg.PoolClient> = createLatchkey({ store }) as never;
  const operation: Operation<"transaction"> = latchkey.operation("shipments.create");
  return {
    driver,
    client,
    broker,
    wrote: async () => broker.own?.wrote(queue),
    left: () => client.left(),
    publish: client.publish,
    rows: () => committedRows(pool),
    dead: async () => {
      const everything = { operation: null, tenant: null, limit: 100, after: null };
      return (await store.messages?.list(everything)) ?? [];
    },
    consume: (
      handler: MessageHandler<pg.PoolClient, "transaction", Order>,
      options: Partial<InboxOptions<Order>> & { readonly size?: number } = {},
    ) =>
      client.consume(
        latchkey,
        operation,
        { tenant: "shop", decode: decodeOrder, backoffMs: 50, failuresMax: 3, ...options },
        handler,
      ),
    async spawn(change: Partial<ConsumerSettings> = {}): Promise<WorkerProcess> {
      const settings: ConsumerSettings = { broker: driver.name, url, queue, databaseUrl, ...change };
      const worker = spawnWorker(script, { args: [JSON.stringify(settings)] });
      await worker.ready(30_000);
      return worker;
    },
  };
}

function decodeOrder({ body }: { readonly body: Uint8Array }): Order {
  const value = JSON.parse(Buffer.from(body).toString()) as Order;
  if (typeof value.order !== "string") throw new TypeError("an order has a name");
  return value;
}

async function deadWithin(dead: Town["dead"]): Promise<false> {
  await until(async () => (await dead()).length > 0, { timeoutMs: 60_000 });
  return false;
}

/**
 * Waits until nothing is left, stops the consumer gracefully, and answers what it has counted. What RabbitMQ has handed out is
 * not left, so whoever counts waits for it first: a consumer that stops gives back what it has not begun.
 */
async function finish(worker: WorkerProcess, left: () => Promise<number>) {
  await until(async () => (await left()) === 0, { what: "the queue is empty", timeoutMs: 30_000 });
  await worker.kill("SIGTERM");
  const told = worker.lines.find((line) => line.counts !== undefined);
  if (told === undefined) throw new Error(`no counts: ${worker.stderr()}`);
  return told.counts as Record<string, number>;
}

async function survive(given: Town): Promise<void> {
  const seed = BigInt(process.env.LATCHKEY_SEED ?? `0x${randomBytes(8).toString("hex")}`);
  const beganMs = performance.now();
  const told = await underChaos(given, seed).catch((cause: unknown) => {
    throw new Error(`LATCHKEY_SEED=${seed}: ${String(cause)}`, { cause });
  });
  const tookSeconds = ((performance.now() - beganMs) / 1_000).toFixed(0);
  if (isProof)
    console.info(JSON.stringify({ ...volumeOf(given.driver), seed: String(seed), ...told, tookSeconds }));
}

async function underChaos({ publish, spawn, rows, driver, broker, left, wrote }: Town, seed: bigint) {
  const draw = drawFrom(seed);
  const { messages, kills, restarts, limitMs } = volumeOf(driver);
  const names = Array.from({ length: messages }, (_, index) => `order-${index}`);
  const repeated = names.filter((_, index) => index % 5 === 0);
  const all = [...names, ...repeated].map((name) => order(name));
  const workers = await Promise.all([spawn(), spawn(), spawn()]);
  const everyone = [...workers];
  const killing = "killing the broker";
  if (broker.own === null && sparedBecause(driver, killing) === undefined)
    notRun(killing, "it is somebody else's");
  const accidents = [
    ...Array.from({ length: kills }, () => async () => {
      const at = draw.below(workers.length);
      await workers[at]?.kill("SIGKILL");
      const another = await spawn();
      workers[at] = another;
      everyone.push(another);
    }),
    ...Array.from({ length: broker.own === null ? 0 : restarts }, () => async () => broker.own?.restart()),
  ].map((happen) => ({ share: draw.fraction(), happen }));
  const reached = (count: number) =>
    until(async () => (await rows()).length >= count, {
      what: `${count} rows`,
      timeoutMs: limitMs,
      intervalMs: 50,
    });
  await wrote();
  const publishing = publish(all);
  for (const { share, happen } of accidents.toSorted((one, other) => one.share - other.share)) {
    await reached(Math.floor(messages * share));
    await happen();
  }
  await publishing;
  await reached(messages);
  await drain(workers, spawn, left, limitMs);
  const found = await rows();
  expect(new Set(found).size, "every message").toBe(messages);
  expect(found.length, "once").toBe(messages);
  const replayed = everyone.flatMap(({ lines }) => lines).filter((line) => line.replayed === true).length;
  expect(replayed, "duplicates have come").toBeGreaterThan(0);
  return { accidents: accidents.length, replayed };
}

/** Until all is acknowledged, also what a consumer gives back when it stops. */
async function drain(
  workers: readonly WorkerProcess[],
  spawn: Town["spawn"],
  left: Town["left"],
  limitMs: number,
) {
  let running = workers;
  for (let stops = 0; running.length > 0; stops++) {
    await until(async () => (await left()) === 0, { what: "the queue is empty", timeoutMs: limitMs });
    for (const worker of running) await worker.kill("SIGTERM");
    expect(stops, "what comes back is settled soon").toBeLessThan(5);
    running = (await left()) === 0 ? [] : [await spawn()];
  }
}
