import type pg from "pg";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { guardOf } from "../../packages/latchkey/src/engine/record.ts";
import type { Owner } from "../../packages/latchkey/src/stores/journal.ts";
import { type PostgresStore, postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { isCommit, isCommitReply } from "../support/postgres-messages.ts";
import { postgresVersions } from "../support/shared-postgres.ts";
import { type Hold, startProxy, type TcpProxy } from "../support/tcp-proxy.ts";
import { until, within } from "../support/until.ts";
import { countRows, terms } from "./arrange.ts";
import { endlessMs, expectNoLeak, migratedDatabase, openPool, patientClock, type TestTx } from "./harness.ts";
import { begin, completing, isolationLevels, ownerOf, type Phase, writingPhase } from "./owned.ts";

const shortMs = 300;
const longMs = 10_000;
const leaseMs = 60_000;
const newToken = "c".repeat(32);

describe.each(postgresVersions())("a phase's COMMIT in doubt on PostgreSQL %i", (version) => {
  let direct: string;
  let proxy: TcpProxy;
  let observer: pg.Pool;
  let pool: pg.Pool;
  let store: PostgresStore<TestTx>;
  let giveUp: () => void;

  beforeAll(async () => {
    direct = await migratedDatabase(version);
    proxy = await startProxy({ to: { port: Number(new URL(direct).port) } });
    observer = openPool(direct);
  });

  beforeEach(async () => {
    pool = openPool(proxy.url(direct), { max: 5 });
    const patience = patientClock();
    giveUp = patience.giveUp;
    store = postgresStore({ pool, statementTimeoutMs: endlessMs, ports: patience.ports });
    // Connections and prepared statements are there before the network misbehaves.
    const owner = ownerOf(await begin(store));
    for (const isolation of isolationLevels) await writingPhase(store, owner, { name: isolation, isolation });
    await store.end(owner.key, owner.id, owner.fence, { event: "release" });
    return async () => {
      await proxy.pass();
      await store.close();
      await expectNoLeak(pool);
      await pool.end();
    };
  });

  /** Commits a phase; when the network keeps the message back, the client gives up. */
  async function inDoubt(owner: Owner, hold: Hold, phase: Phase = {}) {
    const run = writingPhase(store, owner, phase);
    await hold.held();
    giveUp();
    expect((await run).kind).toBe("in_doubt");
  }

  /** The server has done what came before the COMMIT that the network holds. */
  async function untilWritten({ key }: Owner) {
    const look = "select 1 from latchkey.records where key = $1 for update skip locked";
    const isLocked = async () => (await observer.query(look, [key.key])).rows.length === 0;
    await until(isLocked, { what: "the phase has written its record" });
  }

  const refence = (owner: Owner, timeoutMs: number) =>
    store.journal.refence(owner, newToken, leaseMs, timeoutMs);

  const newFence = { attempt: 1, token: newToken };
  const isClosing = ({ sql }: { sql?: string }) => sql?.includes("steps") === true && sql.includes("records");

  describe.each(isolationLevels)("at %s", (isolation) => {
    const phase = { isolation };

    test("its bytes are held in the network: not settled until they arrive, and then its step is there", async () => {
      const owner = ownerOf(await begin(store));
      const hold = proxy.holdWhen(isCommit);
      await inDoubt(owner, hold, phase);
      await untilWritten(owner);
      await expect(refence(owner, shortMs), "it can still commit").rejects.toMatchObject({
        code: "store-unavailable",
        certainty: "in_doubt",
      });
      expect((await store.read(owner.key)).record?.fence, "and nothing was changed by asking").toEqual(
        owner.fence,
      );
      const refenced = refence(owner, longMs);
      hold.release();
      const answer = await refenced;
      expect(answer?.fence).toEqual(newFence);
      expect(answer?.journal).toMatchObject({
        recoveryPoint: "one",
        steps: [{ name: "one", kind: "phase" }],
      });
      expect(await countRows(observer, owner.key)).toBe(1);
    });

    test("its last statements are held, too: its step is not there, and they can do nothing any more", async () => {
      const owner = ownerOf(await begin(store));
      const hold = proxy.holdWhen(isClosing);
      await inDoubt(owner, hold, phase);
      const answer = await refence(owner, longMs);
      expect(answer?.journal).toMatchObject({ recoveryPoint: null, steps: [] });
      hold.release();
      const again = await writingPhase(store, { ...owner, fence: newFence }, phase);
      expect(again.kind).toBe("committed");
      expect(await countRows(observer, owner.key), "once, and by the second").toBe(1);
      expect((await store.journal.read(owner.key, owner.id))?.steps).toHaveLength(1);
    });

    test("its bytes never arrive: its step is not there, and the phase runs again", async () => {
      const owner = ownerOf(await begin(store));
      const hold = proxy.holdWhen(isCommit);
      await inDoubt(owner, hold, phase);
      await untilWritten(owner);
      hold.drop();
      expect((await refence(owner, longMs))?.journal.steps).toEqual([]);
      const again = await writingPhase(store, { ...owner, fence: newFence }, phase);
      expect(again.kind).toBe("committed");
      expect(await countRows(observer, owner.key)).toBe(1);
    });

    test("its reply is lost: its step is there", async () => {
      const owner = ownerOf(await begin(store));
      const hold = proxy.holdReplyWhen(isCommitReply);
      await inDoubt(owner, hold, phase);
      hold.drop();
      expect((await refence(owner, longMs))?.journal.steps).toHaveLength(1);
    });

    test("it was to complete the attempt, and its reply is lost: there is no attempt any more", async () => {
      const owner = ownerOf(await begin(store));
      const hold = proxy.holdReplyWhen(isCommitReply);
      await inDoubt(owner, hold, { ...phase, end: completing });
      hold.drop();
      expect(await refence(owner, longMs)).toBeNull();
      expect((await store.read(owner.key)).record?.state).toBe("completed");
    });

    test("it was to complete the attempt, and is held: the same once it arrives, and in progress if never", async () => {
      for (const arrives of [true, false]) {
        const owner = ownerOf(await begin(store));
        const hold = proxy.holdWhen(isCommit);
        await inDoubt(owner, hold, { ...phase, end: completing });
        await untilWritten(owner);
        await expect(refence(owner, shortMs)).rejects.toMatchObject({ certainty: "in_doubt" });
        const refenced = refence(owner, longMs);
        if (arrives) hold.release();
        else hold.drop();
        const answer = await refenced;
        expect(answer?.journal.steps ?? null).toEqual(arrives ? null : []);
        expect((await store.read(owner.key)).record?.state).toBe(arrives ? "completed" : "in_progress");
        expect(await countRows(observer, owner.key)).toBe(arrives ? 1 : 0);
      }
    });
  });

  test("while it waits, heartbeats of this and of other attempts go on", async () => {
    const [owner, other] = [ownerOf(await begin(store)), ownerOf(await begin(store))];
    const hold = proxy.holdWhen(isCommit);
    await inDoubt(owner, hold);
    await untilWritten(owner);
    const refenced = refence(owner, longMs);
    const look =
      "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like '%set token =%'";
    const isWaiting = async () => (await observer.query(look)).rows.length > 0;
    for (let beat = 0; beat < 5; beat++) {
      await until(isWaiting, { what: "the refence waits for the phase", intervalMs: 1 });
      const renewals = [owner, other].map(({ key, id, fence }) => store.renew(key, id, fence, leaseMs));
      expect(await within(Promise.all(renewals), "the heartbeats", 2_000)).toEqual([true, true]);
    }
    hold.release();
    expect((await refenced)?.journal.steps).toHaveLength(1);
  });

  test("while it waits, nobody takes the record, and nobody waits to try", async () => {
    const record = await begin(store, { leaseMs: 1 });
    const owner = ownerOf(record);
    const hold = proxy.holdWhen(isCommit);
    await inDoubt(owner, hold);
    await untilWritten(owner);
    const take = store.takeOver(owner.key, guardOf(record), record.fingerprint, "b".repeat(32), terms);
    expect(await within(take, "the take-over answers", 5_000)).toBeNull();
    hold.release();
    expect((await refence(owner, longMs))?.fence).toEqual(newFence);
    const late = store.takeOver(owner.key, guardOf(record), record.fingerprint, "b".repeat(32), terms);
    expect(await late).toBeNull();
  });

  test("its own reply is lost: repeated with the same token it answers, and the old token writes nothing", async () => {
    const owner = ownerOf(await begin(store));
    const hold = proxy.holdReplyWhen(isCommitReply);
    const first = refence(owner, longMs);
    await hold.held();
    hold.drop();
    expect((await first)?.fence).toEqual(newFence);
    expect((await refence(owner, longMs))?.fence).toEqual(newFence);
    expect((await writingPhase(store, owner)).kind).toBe("lost");
    expect(await store.renew(owner.key, owner.id, owner.fence, leaseMs)).toBe(false);
    expect(await store.renew(owner.key, owner.id, newFence, leaseMs)).toBe(true);
  });

  test("nobody can be asked: in doubt, within the time that was given", async () => {
    const owner = ownerOf(await begin(store));
    await proxy.cut();
    await expect(refence(owner, shortMs)).rejects.toMatchObject({
      certainty: expect.stringMatching(/in_doubt|not_sent/),
    });
  });
});
