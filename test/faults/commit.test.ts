/** Faults at the one moment that matters: COMMIT is under way. */
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { isCommit, isCommitReply } from "../support/postgres-messages.ts";
import { until } from "../support/until.ts";
import { type Arena, openArena, type Server } from "./arena.ts";

let arena: Arena;
let server: Server;
let other: Server;
let count = 0;
let tenant = "";

beforeAll(async () => {
  arena = await openArena();
  [server, other] = await Promise.all([arena.serve(), arena.serve({ direct: true })]);
});
beforeEach(() => {
  tenant = `tenant-${++count}`;
});

const order = { item: "book", amount: 1 };
const post = (to: Server) => to.post("/orders", "k", order, tenant);

/** What must hold whatever happened: one row, and every further answer is a replay of the same bytes. */
async function expectOneOrder(): Promise<void> {
  const first = await post(other);
  expect(first).toMatchObject({ status: 201, replayed: true });
  expect(await post(other)).toEqual(first);
  expect(await other.ledger(tenant)).toHaveLength(1);
}

describe("a server that is killed", () => {
  test("before COMMIT reaches the database: nothing happened, the retry runs", async () => {
    const victim = await arena.serve();
    const hold = arena.proxy.holdWhen(isCommit);
    const lost = post(victim).catch(() => "no answer");
    await hold.held();
    await victim.worker.kill("SIGKILL");
    hold.drop();
    expect(await lost).toBe("no answer");
    await until(async () => (await post(other)).status === 201, { what: "the key is free again" });
    await expectOneOrder();
  });

  test("before the reply to COMMIT reaches it: the retry gets the stored answer", async () => {
    const victim = await arena.serve();
    const hold = arena.proxy.holdReplyWhen(isCommitReply);
    const lost = post(victim).catch(() => "no answer");
    await hold.held();
    await victim.worker.kill("SIGKILL");
    hold.drop();
    expect(await lost).toBe("no answer");
    await expectOneOrder();
    expect(await other.starts("/orders", tenant)).toBe(1);
  });

  test("while its COMMIT is still on its way: a retry waits for what becomes of it", async () => {
    const victim = await arena.serve();
    const hold = arena.proxy.holdWhen(isCommit);
    const lost = post(victim).catch(() => "no answer");
    await hold.held();
    await victim.worker.kill("SIGKILL");
    expect(await lost).toBe("no answer");
    expect(await post(other)).toMatchObject({ status: 409, code: "in-progress" });
    hold.release();
    await until(async () => (await post(other)).status === 201, { what: "the late COMMIT is decided" });
    await expectOneOrder();
    expect(await other.starts("/orders", tenant)).toBe(1);
  });
});

describe("a connection that breaks", () => {
  test("after COMMIT was executed: the server finds out, and answers what it did", async () => {
    const hold = arena.proxy.holdReplyWhen(isCommitReply);
    const answer = post(server);
    await hold.held();
    hold.drop();
    expect(await answer).toMatchObject({ status: 201, replayed: false });
    await expectOneOrder();
    expect(await other.starts("/orders", tenant)).toBe(1);
  });

  test("before COMMIT was executed: the server finds out, and runs again", async () => {
    const hold = arena.proxy.holdWhen(isCommit);
    const answer = post(server);
    await hold.held();
    hold.drop();
    expect(await answer).toMatchObject({ status: 201 });
    await expectOneOrder();
    expect(await other.starts("/orders", tenant)).toBe(2);
  });

  test("because the database ended the session in mid-pipeline: the server runs again", async () => {
    const hold = arena.proxy.holdWhen(isCommit);
    const answer = post(server);
    await hold.held();
    await arena.admin(
      "select pg_terminate_backend(pid) from pg_stat_activity where state like 'idle in transaction%' or (state = 'active' and wait_event = 'ClientRead')",
    );
    hold.release();
    expect(await answer).toMatchObject({ status: 201 });
    await expectOneOrder();
  });
});

describe("a database that is killed", () => {
  test("while a COMMIT is under way: in doubt or unavailable, never success; after its restart one order", async () => {
    const hold = arena.proxy.holdWhen(isCommit);
    const answer = post(server);
    await hold.held();
    await arena.postgres.kill9();
    hold.drop();
    const reply = await answer;
    expect(reply.status).toBe(503);
    expect(["commit-in-doubt", "store-unavailable"]).toContain(reply.code);
    expect(await post(other)).toMatchObject({ status: 503, code: "store-unavailable" });
    await arena.postgres.start();
    for (const each of [server, other]) {
      // Each has a circuit of its own, which its services may have opened during the outage.
      await until(async () => (await post(each)).status === 201, {
        what: "it works again without a restart",
      });
    }
    await expectOneOrder();
  });

  test("after COMMIT, before its reply: the acknowledged-to-nobody order is replayed", async () => {
    const hold = arena.proxy.holdReplyWhen(isCommitReply);
    const answer = post(server);
    await hold.held();
    await arena.postgres.kill9();
    hold.drop();
    expect((await answer).status).toBe(503);
    await arena.postgres.start();
    await until(async () => (await post(other)).status === 201, { what: "the database is back" });
    await expectOneOrder();
    expect(await other.starts("/orders", tenant)).toBe(1);
  });
});
