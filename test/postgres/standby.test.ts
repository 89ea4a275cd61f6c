import type pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import type { PrivatePostgres } from "../support/private-postgres.ts";
import { startPostgres } from "../support/private-postgres.ts";
import { postgresVersions } from "../support/shared-postgres.ts";
import { type Standby, startStandby } from "../support/standby.ts";
import { startProxy, type TcpProxy } from "../support/tcp-proxy.ts";
import { until } from "../support/until.ts";
import {
  answer,
  countRows,
  newKey,
  newLife,
  request,
  retention,
  supportOf,
  terms,
  writing,
} from "./arrange.ts";
import { openPool, prepareDatabase } from "./harness.ts";
import { messagesOf, newId, newLetter, newMessage, oneStart } from "./messages-arrange.ts";
import { claim, claimOf, delivered, enqueuing, newEffect, outboxOf } from "./outbox-arrange.ts";
import { begin, beginUnknown, intent, note, ownerOf, writingPhase } from "./owned.ts";

describe.each(postgresVersions())("a primary with a synchronous standby, PostgreSQL %i", (version) => {
  let primary: PrivatePostgres;
  let standby: Standby;
  let replication: TcpProxy;
  let pool: pg.Pool;

  beforeAll(async () => {
    primary = await startPostgres({ version, conf: { max_connections: 40 } });
    await prepareDatabase(primary.url);
    replication = await startProxy({ to: { port: primary.port } });
    standby = await startStandby(primary, { synchronous: true, through: replication });
    pool = openPool(primary.url, { max: 6 });
    await writing(openStore(), newLife(newKey()));
  });
  afterEach(() => replication.pass());
  afterAll(async () => {
    // A lease that nothing ends keeps a connection for its heartbeats, and the pool waits for that.
    for (const store of stores) await store.close();
    await pool?.end();
  });

  const stores: ReturnType<typeof postgresStore>[] = [];
  function openStore() {
    const store = postgresStore({ pool });
    stores.push(store);
    return store;
  }

  const waiting = "wait_event = 'SyncRep' and backend_type = 'client backend'";

  /** Cancels the backend that waits for the standby. */
  async function cancelSyncWait() {
    const cancel = `select pg_cancel_backend(pid) from pg_stat_activity where ${waiting}`;
    await until(async () => (await primary.admin(cancel)).length > 0, {
      what: "a backend waits for the standby",
    });
  }

  /** The COMMIT of the second, empty write waits for the standby. */
  async function untilConfirming() {
    const look = `select 1 from pg_stat_activity where ${waiting} and query = 'commit'`;
    await until(async () => (await primary.admin(look)).length > 0, { what: "the confirmation waits" });
  }

  test.each(["default", "-c client_min_messages=error"])(
    "a cancelled wait for the standby is in doubt until it is replicated (%s)",
    async (options) => {
      const quiet = openPool(primary.url, { max: 6, ...(options === "default" ? {} : { options }) });
      const store = postgresStore({ pool: quiet });
      const life = newLife(newKey());
      replication.stall();
      const run = writing(store, life);
      await cancelSyncWait();
      const outcome = await run;
      expect(outcome).toMatchObject({ kind: "in_doubt" });
      const state = "select state from latchkey.records where key = $1";
      expect(await primary.admin(state, [life.key]), "here, perhaps nowhere else").toEqual([
        { state: "completed" },
      ]);
      const answered = store.read(life);
      let isAnswered = false;
      void answered.then(() => {
        isAnswered = true;
      });
      const { resolve } = supportOf(store);
      expect(await resolve(life, life.id, life.fence, 150), "a read alone proves nothing").toBe("in_doubt");
      expect(isAnswered, "a caller that got it must not lose it with this server").toBe(false);
      const settled = resolve(life, life.id, life.fence, 20_000);
      await replication.pass();
      expect(await settled).toBe("committed");
      expect((await answered).record?.state).toBe("completed");
      await standby.untilCaughtUp();
      const copy = openPool(standby.url, { max: 1 });
      expect(await countRows(copy, life)).toBe(1);
      await copy.end();
      await quiet.end();
    },
  );

  test("look-ups that are sent as one statement return only what is replicated", async () => {
    const lives = Array.from({ length: 7 }, () => newLife(newKey()));
    const many = openPool(primary.url, { max: lives.length });
    const store = postgresStore({ pool: many });
    replication.stall();
    for (const life of lives) {
      const run = writing(store, life);
      await cancelSyncWait();
      expect(await run).toMatchObject({ kind: "in_doubt" });
    }
    let calls = 0;
    const reads = lives.map(async (life) => {
      const { record } = await store.read(life);
      calls += 1;
      return record?.id;
    });
    const confirming = `select count(*)::int as count from pg_stat_activity where ${waiting} and query = 'commit'`;
    await until(async () => (await primary.admin(confirming))[0]?.count === lives.length, {
      what: "each look-up waits for the standby",
    });
    expect(calls).toBe(0);
    await replication.pass();
    expect(await Promise.all(reads)).toEqual(lives.map(({ id }) => id));
    await many.end();
  });

  test("a completion under a lease whose wait was cancelled is confirmed by a later one", async () => {
    const store = openStore();
    const life = newLife(newKey());
    await store.create(life, null, terms);
    replication.stall();
    const end = store.end(life, life.id, life.fence, {
      event: "complete",
      answer,
      retention,
      errorCode: null,
    });
    await cancelSyncWait();
    await untilConfirming();
    await replication.pass();
    expect(await end).not.toBeNull();
    await store.close();
  });

  test("completions that are sent as one statement are confirmed together", async () => {
    const store = openStore();
    const lives = Array.from({ length: 4 }, () => newLife(newKey()));
    for (const life of lives) await store.create(life, null, terms);
    replication.stall();
    const ends = lives.map((life) =>
      store.end(life, life.id, life.fence, { event: "complete", answer, retention, errorCode: null }),
    );
    let settledCount = 0;
    for (const end of ends) {
      const count = () => {
        settledCount += 1;
      };
      void end.then(count, count);
    }
    await cancelSyncWait();
    await untilConfirming();
    expect(settledCount).toBe(0);
    await replication.pass();
    expect((await Promise.all(ends)).includes(null)).toBe(false);
    await store.close();
  });

  test.each([1, 3])(
    "%i of them in one statement are in doubt when they cannot be confirmed",
    async (count) => {
      const store = openStore();
      const lives = Array.from({ length: count }, () => newLife(newKey()));
      for (const life of lives) await store.create(life, null, terms);
      replication.stall();
      const end = (life: (typeof lives)[number]) =>
        store.end(life, life.id, life.fence, { event: "complete", answer, retention, errorCode: null });
      const ends = Promise.allSettled(lives.map(end));
      await cancelSyncWait();
      await untilConfirming();
      await cancelSyncWait();
      const inDoubt = { code: "store-unavailable", certainty: "in_doubt" };
      const failed = await ends;
      expect(failed).toMatchObject(lives.map(() => ({ status: "rejected", reason: inDoubt })));
      const reasons = failed.map((one) => one.status === "rejected" && one.reason);
      expect(new Set(reasons).size, "the error of one statement").toBe(1);
      await replication.pass();
      expect(await Promise.all(lives.map(end)), "they had been written").toEqual(lives.map(() => null));
      await store.close();
    },
  );

  test("a phase whose wait was cancelled is in doubt, until a refence is replicated", async () => {
    const store = openStore();
    const owner = ownerOf(await begin(store));
    replication.stall();
    const run = writingPhase(store, owner);
    await cancelSyncWait();
    expect(await run).toMatchObject({ kind: "in_doubt" });
    const unconfirmed = store.journal.refence(owner, "c".repeat(32), 60_000, 300);
    await expect(unconfirmed, "a read alone proves nothing").rejects.toMatchObject({ certainty: "in_doubt" });
    const refenced = store.journal.refence(owner, "c".repeat(32), 60_000, 20_000);
    await replication.pass();
    expect((await refenced)?.journal.steps).toHaveLength(1);
    await standby.untilCaughtUp();
    const copy = openPool(standby.url, { max: 1 });
    expect(await countRows(copy, owner.key)).toBe(1);
    const { rows } = await copy.query("select name from latchkey.steps where record_id = $1", [owner.id]);
    expect(rows).toEqual([{ name: "one" }]);
    await copy.end();
    await store.close();
  });

  test("an intent whose wait was cancelled is confirmed before its call is sent", async () => {
    const store = openStore();
    const owner = ownerOf(await begin(store));
    replication.stall();
    const started = store.journal.startCall(owner, intent("charge"));
    await cancelSyncWait();
    await untilConfirming();
    await replication.pass();
    expect((await started)?.step.state).toBe("started");
    await standby.untilCaughtUp();
    const copy = openPool(standby.url, { max: 1 });
    const { rows } = await copy.query("select state from latchkey.steps where record_id = $1", [owner.id]);
    expect(rows).toEqual([{ state: "started" }]);
    await copy.end();
    await store.close();
  });

  /** What a cancelled wait left on the primary alone is returned only once the standby has it. */
  /** The write is made, and neither it nor the write that should confirm it is known to be on the standby. */
  async function expectInDoubt(write: () => Promise<unknown>) {
    replication.stall();
    const inDoubt = expect(write()).rejects.toMatchObject({ certainty: "in_doubt" });
    await cancelSyncWait();
    await untilConfirming();
    await cancelSyncWait();
    await inDoubt;
  }

  async function expectAnswerOnceReplicated<T>(repeat: () => Promise<T>, expected: T) {
    let isAnswered = false;
    const answered = repeat().finally(() => {
      isAnswered = true;
    });
    await Promise.race([answered, untilConfirming()]);
    expect(isAnswered, "a read alone proves nothing").toBe(false);
    await replication.pass();
    expect(await answered).toEqual(expected);
  }

  test("a start or an end of a send whose wait was cancelled is returned only once it is replicated", async () => {
    const store = openStore();
    const outbox = outboxOf(store);
    await enqueuing(store, [newEffect({ effect: "unconfirmed" })]);
    const [claimed] = await claim(store, 1, "unconfirmed");
    if (claimed === undefined) throw new Error("it was claimed");
    for (const write of [() => outbox.start([claimed], 60_000), () => outbox.end([delivered(claimed)])]) {
      await expectInDoubt(write);
      await expectAnswerOnceReplicated(write, [claimed.id]);
    }
    await store.close();
  });

  test("what a person decides, and a wait was cancelled for, is returned only once it is replicated", async () => {
    const store = openStore();
    const { owner, guard } = await beginUnknown(store);
    const [settling, redriving, removing] = [note(), note(), note()];
    const settlement = { event: "settle_failed", answer, retention, errorCode: "given-up" } as const;
    const outbox = outboxOf(store);
    await enqueuing(store, [newEffect({ effect: "dies" })]);
    const [claimed] = await claim(store, 1, "dies");
    if (claimed === undefined) throw new Error("it was claimed");
    await outbox.end([
      { ...claimOf(claimed), event: "die", errorCode: "refused", returned: false, unsent: true },
    ]);
    const letter = newLetter();
    await messagesOf(store).bury(newMessage(), letter, null);
    const writes = [
      () => store.settlement.settle(owner.key, guard, settlement, settling),
      () => outbox.decide(claimed.id, { event: "redrive", attempt: null, doubt: "kept" }, redriving),
      () => messagesOf(store).remove(letter.id, "discard", removing),
    ];
    for (const write of writes) {
      await expectInDoubt(write);
      await expectAnswerOnceReplicated(write, true);
    }
    // Who finds its settlement in the audit does not write it again.
    replication.stall();
    const found = async () => (await store.settlement.audit(owner.key)).map(({ id }) => id);
    await expectAnswerOnceReplicated(found, [settling.id]);
    await store.close();
  });

  test("a message whose death waited in vain for the standby is dead only once it is replicated", async () => {
    const store = openStore();
    const { bury, count, find } = messagesOf(store);
    const [refused, killer] = [newMessage(), newMessage()];
    const tally = await count(killer, oneStart, newId());
    const condemn = () => bury(killer, newLetter(), tally);
    const deaths = [
      { facts: refused, die: () => bury(refused, newLetter(), null) },
      { facts: killer, die: condemn },
    ];
    for (const { facts, die } of deaths) {
      await expectInDoubt(die);
      await expectAnswerOnceReplicated(async () => (await find(facts.digest))?.state, "dead");
    }
    replication.stall();
    await expectAnswerOnceReplicated(condemn, true);
    await store.close();
  });

  test.each(["-c synchronous_commit=off", "-c client_min_messages=error"])(
    "a cancelled wait is not confirmed by a write that waits for nothing, or whose warning is hidden (%s)",
    async (options) => {
      const careless = openPool(primary.url, { max: 6, options });
      const store = postgresStore({ pool: careless });
      const life = newLife(newKey());
      await store.create(life, null, terms);
      replication.stall();
      const completed = { event: "complete", answer, retention, errorCode: null } as const;
      const end = store.end(life, life.id, life.fence, completed);
      const outcome = end.then(
        () => "believed",
        (error: { certainty?: unknown }) => error.certainty,
      );
      await cancelSyncWait();
      await Promise.race([outcome, untilConfirming().then(cancelSyncWait)]);
      expect(await outcome).toBe("in_doubt");
      await replication.pass();
      await store.close();
      await careless.end();
    },
  );

  test("a standby does not answer what is unknown, resumable or in the ledger", async () => {
    const { owner, guard } = await beginUnknown(openStore());
    await standby.untilCaughtUp();
    const copy = openPool(standby.url, { max: 4 });
    const store = postgresStore({ pool: copy });
    const filter = { state: "unknown", tenant: null, operation: null, limit: 10, after: null } as const;
    const ledger = { effect: "charge", from: 0, to: 1, limit: 10, after: null };
    const settlement = {
      event: "settle_not_executed",
      calls: "may-repeat",
      reopen: null,
      resumeAfterMs: 0,
    } as const;
    const asked = [
      () => store.journal.read(owner.key, owner.id),
      () => store.journal.callsByDownstreamKey(["nobody knows this one"]),
      () => store.journal.finishedCalls(ledger),
      () => store.settlement.list(filter),
      () => store.settlement.resumable(["nobody's"], 10),
      () => store.settlement.audit(owner.key),
      () => store.settlement.claimUnknowns(["orders.create"], 10, 1),
      () => store.settlement.settle(owner.key, guard, settlement, note()),
      () => messagesOf(store).find(newMessage().digest),
      () =>
        supportOf(store).phase({ owner, isolation: null, idleLimitMs: 1_000 }, async () => {
          throw new Error("it must not begin");
        }),
    ];
    for (const ask of asked) await expect(ask()).rejects.toMatchObject({ code: "store-unavailable" });
    await copy.end();
  });

  test("on a standby no effect is claimed, started, ended, shown or decided, and nobody listens", async () => {
    const primaryStore = openStore();
    const life = newLife(newKey());
    await enqueuing(primaryStore, [newEffect({ effect: "standby" })], async () => {}, life);
    const [claimed] = await claim(primaryStore, 1, "standby");
    if (claimed === undefined) throw new Error("it was claimed");
    await standby.untilCaughtUp();
    const copy = openPool(standby.url, { max: 4 });
    const store = postgresStore({ pool: copy });
    const outbox = outboxOf(store);
    const filter = { state: "dead", effect: null, tenant: null, limit: 10, after: null } as const;
    const dead = { id: claimed.id, actor: "a", reason: null };
    const wants = [{ operation: "o", tokens: ["a".repeat(32)], terms }];
    const asked = [
      () => outbox.claim([{ effect: "nobody's", limit: 1 }], "a".repeat(32), 1_000),
      () => outbox.start([claimed], 1_000),
      () => outbox.end([delivered(claimed)]),
      () => outbox.rescue(10),
      () => outbox.list(filter),
      () => outbox.list({ ...filter, state: "pending" }),
      () => outbox.ofRecord(life.id),
      () => outbox.decide(claimed.id, { event: "discard", attempt: null, keepMs: 0 }, dead),
      () => store.readById(life.tenant, life.id),
      () => store.claimPending(wants),
      () =>
        supportOf(store).deliver(
          { claim: claimed, tenant: claimed.tenant, idleLimitMs: 1_000, keepMs: 0 },
          async () => {
            throw new Error("it must not begin");
          },
        ),
      async () => store.hints?.listen(() => {}),
    ];
    for (const ask of asked) await expect(ask()).rejects.toMatchObject({ code: "store-unavailable" });
    store.hints?.send("effects");
    await store.close();
    expect([copy.totalCount - copy.idleCount, copy.waitingCount]).toEqual([0, 0]);
    await copy.end();
  });

  test("on a standby nothing starts, and nothing is replayed", async () => {
    const key = newKey();
    const life = newLife(key);
    await writing(openStore(), life);
    const owner = ownerOf(await begin(openStore()));
    await standby.untilCaughtUp();
    const copy = openPool(standby.url, { max: 4 });
    const store = postgresStore({ pool: copy });
    let ran = false;
    const refusal = { code: "store-unavailable", message: expect.stringMatching(/standby|0A000/) };
    for (const isolation of [null, "read committed", "serializable"] as const) {
      for (const asked of [newKey(), key]) {
        const run = supportOf(store).run(request(asked, { isolation }), async () => {
          ran = true;
          return { end: "rollback", value: "" };
        });
        await expect(run).rejects.toMatchObject(refusal);
      }
      const phase = writingPhase(store, owner, { isolation }, async () => {
        ran = true;
      });
      await expect(phase).rejects.toMatchObject(refusal);
    }
    await expect(store.read(life)).rejects.toMatchObject({
      code: "store-unavailable",
      certainty: "rolled_back",
    });
    const created = store.create(newLife(newKey()), null, terms);
    await expect(created).rejects.toMatchObject({ certainty: "rolled_back", cause: { code: "25006" } });
    await expect(store.clean(10)).rejects.toMatchObject({ certainty: "rolled_back" });
    expect(await supportOf(store).resolve(key, life.id, life.fence, 100)).toBe("in_doubt");
    expect(ran).toBe(false);
    expect(copy.idleCount).toBe(copy.totalCount);
    await copy.end();
  });

  test("after a synchronous failover every acknowledged completion is there", async () => {
    const store = openStore();
    const lives = Array.from({ length: 20 }, () => newLife(newKey()));
    for (const life of lives) expect((await writing(store, life)).kind).toBe("committed");
    await replication.cut();
    await primary.kill9();
    await standby.promote();
    const copy = openPool(standby.url, { max: 4 });
    const promoted = postgresStore({ pool: copy });
    for (const life of lives) {
      const { record } = await promoted.read(life);
      expect(record).toMatchObject({ id: life.id, fence: life.fence, state: "completed" });
      expect(await countRows(copy, life)).toBe(1);
    }
    expect((await writing(promoted, newLife(newKey()))).kind).toBe("committed");
    await copy.end();
  });
});
