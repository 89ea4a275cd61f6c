/**
 * An effect is in the outbox exactly when its transaction has committed, also when the API's process or Postgres is killed
 * with SIGKILL around that COMMIT; and then it is delivered, once.
 */
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { holdCommits, letCommitsGo } from "../support/held-commits.ts";
import { isCommit, isCommitReply } from "../support/postgres-messages.ts";
import { until } from "../support/until.ts";
import { type Arena, openArena, type Reply, type Server } from "./arena.ts";
import { openReceiver, type Receiver } from "./outbox-receiver.ts";

let arena: Arena;
let receiver: Receiver;
/** Behind the proxy; it lives through what happens to Postgres. */
let server: Server;
/** Past the proxy, and the only one that delivers. */
let other: Server;
let count = 0;
let tenant = "";

const notify = (to: Server, key = "k") => to.post("/notify", key, { item: "book", amount: 1 }, tenant);
const lost = (to: Server) => notify(to).catch(() => null);

beforeAll(async () => {
  [arena, receiver] = await Promise.all([openArena(), openReceiver()]);
  const downstream = ["--downstream", receiver.url];
  [server, other] = await Promise.all([
    arena.serve({ args: downstream }),
    arena.serve({ args: [...downstream, "--services", "on"], direct: true }),
  ]);
});
beforeEach(() => {
  tenant = `tenant-${++count}`;
});

interface Pair {
  readonly order: string | null;
  readonly effect: string | null;
  readonly key: string;
}

/** Orders and effects of this tenant, side by side; they are joined by what both got from one transaction. */
async function pairs(): Promise<readonly Pair[]> {
  return arena.postgres.admin<Pair>(
    `select o.id as "order", e.aggregateid as effect, coalesce(o.key, e.key) as key
      from (select * from fixture_orders where tenant = $1) o
      full join (select * from latchkey.outbox where tenant = $1) e
        on e.aggregateid = o.id and e.record_id::text = o.record_id`,
    [tenant],
  );
}

/** Whatever happened: no order without its effect, no effect without its order. */
async function wholePairs(): Promise<readonly Pair[]> {
  const found = await pairs();
  for (const { key, order, effect } of found) expect(effect, `by halves: ${key}`).toBe(order);
  return found;
}

/** The client insists, and there is one order, one effect and one notice. */
async function expectOneOfEach(): Promise<void> {
  await until(async () => (await notify(other)).status === 201, { what: "the retry is answered" });
  expect(await wholePairs()).toHaveLength(1);
  const [pair] = await pairs();
  const order = String(pair?.order);
  await until(() => receiver.arrivalsOf(order).length > 0, { what: "the notice arrives" });
  const delivered = async () => {
    const rows = await arena.postgres.admin(
      "select 1 from latchkey.outbox where tenant = $1 and state <> 'delivered'",
      [tenant],
    );
    return rows.length === 0;
  };
  await until(delivered, { what: "the notice is delivered", timeoutMs: 20_000 });
  expect(receiver.effectsOf(order)).toBe(1);
}

describe("an API that is killed", () => {
  const victimOf = () => arena.serve({ args: ["--downstream", receiver.url] });

  test("before its COMMIT arrives: neither order nor effect", async () => {
    const victim = await victimOf();
    const hold = arena.proxy.holdWhen(isCommit);
    const reply = lost(victim);
    await hold.held();
    await victim.worker.kill("SIGKILL");
    hold.drop();
    expect(await reply).toBeNull();
    expect(await wholePairs()).toHaveLength(0);
    await expectOneOfEach();
  });

  test("after its COMMIT, before the reply: both, and the retry is a replay", async () => {
    const victim = await victimOf();
    const hold = arena.proxy.holdReplyWhen(isCommitReply);
    const reply = lost(victim);
    await hold.held();
    await victim.worker.kill("SIGKILL");
    hold.drop();
    expect(await reply).toBeNull();
    expect(await wholePairs()).toHaveLength(1);
    expect(await notify(other)).toMatchObject({ status: 201, replayed: true });
    await expectOneOfEach();
  });

  test("while its COMMIT is on the way: both, once it has arrived", async () => {
    const victim = await victimOf();
    const hold = arena.proxy.holdWhen(isCommit);
    const reply = lost(victim);
    await hold.held();
    await victim.worker.kill("SIGKILL");
    expect(await reply).toBeNull();
    expect(await wholePairs()).toHaveLength(0);
    hold.release();
    await until(async () => (await pairs()).length === 1, { what: "the late COMMIT is done" });
    expect(await wholePairs()).toHaveLength(1);
    await expectOneOfEach();
  });
});

describe("a Postgres that is killed", () => {
  test("before COMMIT arrives: neither order nor effect", async () => {
    const hold = arena.proxy.holdWhen(isCommit);
    const reply = lost(server);
    await hold.held();
    await arena.postgres.kill9();
    hold.drop();
    expect((await reply)?.status).toBe(503);
    await arena.postgres.start();
    expect(await wholePairs()).toHaveLength(0);
    await expectOneOfEach();
  });

  test("in the middle of COMMIT, which is written and not confirmed: both", async () => {
    // A commit that waits for a standby has been written, and no caller has a reply.
    await holdCommits(arena.postgres);
    const reply = lost(server);
    const waits = () => arena.postgres.admin("select 1 from pg_stat_activity where wait_event = 'SyncRep'");
    const hasWritten = async () => (await waits()).length > 0 && (await pairs()).length === 0;
    await until(hasWritten, { what: "it commits" });
    await arena.postgres.kill9();
    await arena.postgres.start();
    await letCommitsGo(arena.postgres);
    expect(await wholePairs()).toHaveLength(1);
    expect([201, 503]).toContain((await reply)?.status);
    await expectOneOfEach();
  });

  test("after COMMIT, before its reply: both", async () => {
    const hold = arena.proxy.holdReplyWhen(isCommitReply);
    const reply = lost(server);
    await hold.held();
    await arena.postgres.kill9();
    hold.drop();
    await arena.postgres.start();
    expect(await wholePairs()).toHaveLength(1);
    expect([201, 503]).toContain((await reply)?.status);
    await expectOneOfEach();
  });

  test("at any moment of many: whatever was answered is there, and nothing is by halves", async () => {
    const keys = Array.from({ length: 60 }, (_, index) => `key-${index}`);
    const replies = new Map<string, Reply | null>();
    const queue = keys.values();
    const client = async () => {
      for (const key of queue) replies.set(key, await notify(server, key).catch(() => null));
    };
    const clients = Promise.all(Array.from({ length: 6 }, client));
    const answered = () => keys.filter((key) => replies.get(key)?.status === 201);
    await until(() => answered().length >= 12, { what: "some are answered", intervalMs: 1 });
    await arena.postgres.kill9();
    const before = answered();
    expect(before.length).toBeLessThan(keys.length);
    await arena.postgres.start();
    const isThere = async () => {
      const there = new Set((await wholePairs()).map(({ key }) => key));
      return before.every((key) => there.has(key));
    };
    expect(await isThere(), "what was answered").toBe(true);
    await clients;
    for (const key of keys) {
      await until(async () => (await notify(server, key)).status === 201, { what: `${key} is answered` });
    }
    expect(await wholePairs()).toHaveLength(keys.length);
    const isAcknowledged = async () =>
      (await pairs()).every(({ order }) => receiver.effectsOf(String(order)) === 1);
    await until(isAcknowledged, { what: "every notice arrives, once", timeoutMs: 20_000, intervalMs: 50 });
  });
});
