import type pg from "pg";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { guardOf, type RecordKey } from "../../packages/latchkey/src/engine/record.ts";
import { type PostgresStore, postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { patient } from "../support/patience.ts";
import { postgresVersions } from "../support/shared-postgres.ts";
import { deferred, until, within } from "../support/until.ts";
import { countRows, newKey, newLife, request, retention, supportOf, terms } from "./arrange.ts";
import { expectNoLeak, migratedDatabase, openPool, type TestTx } from "./harness.ts";
import { begin, completing, isolationLevels, ownerOf, type Phase, phaseEnd, writingPhase } from "./owned.ts";

const ends: readonly (readonly [string, Phase])[] = [
  ["advances", {}],
  ["completes", { end: completing }],
];
const cases = isolationLevels.flatMap((isolation) =>
  ends.map(([what, phase]) => [isolation, what, { ...phase, isolation }] as const),
);

describe.each(postgresVersions())("phases on PostgreSQL %i", (version) => {
  let url: string;
  let observer: pg.Pool;
  let pool: pg.Pool;
  let store: PostgresStore<TestTx>;

  beforeAll(async () => {
    url = await migratedDatabase(version);
    observer = openPool(url);
  });

  beforeEach(() => {
    pool = openPool(url, { max: 12 });
    store = postgresStore({ pool });
    return async () => {
      await store.close();
      await expectNoLeak(pool);
      await pool.end();
    };
  });

  async function leasesOf(key: RecordKey): Promise<number> {
    const { rows } = await observer.query("select 1 from latchkey.leases where key = $1", [key.key]);
    return rows.length;
  }

  async function stepsOf(key: RecordKey): Promise<readonly string[]> {
    const { rows } = await observer.query<{ name: string }>(
      "select name from latchkey.steps where key = $1",
      [key.key],
    );
    return rows.map(({ name }) => name);
  }

  describe.each(cases)("at %s, one that %s", (isolation, what, phase) => {
    const completes = what === "completes";

    test("and is longer than the lease commits, while its heartbeats go on and nobody waits for it", async () => {
      const leaseMs = patient(400);
      const record = await begin(store, { leaseMs });
      const owner = ownerOf(record);
      const outcome = await writingPhase(store, owner, phase, async () => {
        const isOver = async () => {
          const renewed = store.renew(owner.key, owner.id, owner.fence, leaseMs);
          expect(await within(renewed, "the heartbeat", 5_000)).toBe(true);
          return (await store.read(owner.key)).now > record.leaseEndsAt + leaseMs;
        };
        await until(isOver, { what: "the first lease would be over" });
        const others = Promise.all([
          store.create(newLife(owner.key), null, terms),
          store.takeOver(owner.key, guardOf(record), record.fingerprint, "b".repeat(32), terms),
          store.giveUp(owner.key, guardOf(record), "x", null),
        ]);
        expect(await within(others, "nobody waits for the phase", 5_000)).toEqual([null, null, false]);
      });
      expect(outcome.kind).toBe("committed");
      expect(await countRows(observer, owner.key)).toBe(1);
      expect(await stepsOf(owner.key)).toEqual(["one"]);
      const { record: after } = await store.read(owner.key);
      expect(after?.state).toBe(completes ? "completed" : "in_progress");
      expect(await leasesOf(owner.key), "no lease outlives its attempt").toBe(completes ? 0 : 1);
      if (!completes) await store.end(owner.key, owner.id, owner.fence, { event: "release" });
    });

    test("and whose attempt was taken over meanwhile leaves nothing, whoever runs it again", async () => {
      const record = await begin(store, { leaseMs: 1 });
      const owner = ownerOf(record);
      const outcome = await writingPhase(store, owner, phase, async () => {
        const takeOver = () =>
          store.takeOver(owner.key, guardOf(record), record.fingerprint, "b".repeat(32), terms);
        await until(takeOver, { what: "the lease has ended" });
      });
      const repeated = await writingPhase(store, owner, phase);
      // Above READ COMMITTED the conflict is seen before the guard is asked.
      expect(outcome).toMatchObject(
        isolation === "read committed" ? { kind: "lost" } : { kind: "refused", because: "serialization" },
      );
      expect(repeated.kind).toBe("lost");
      expect(await countRows(observer, owner.key)).toBe(0);
      expect(await stepsOf(owner.key)).toEqual([]);
      const { record: after } = await store.read(owner.key);
      expect(after).toMatchObject({ state: "in_progress", fence: { attempt: 2 } });
    });

    test("and whose record is gone leaves nothing, not even a record", async () => {
      const record = await begin(store);
      const owner = ownerOf(record);
      expect(await store.end(owner.key, owner.id, owner.fence, { event: "release" })).not.toBeNull();
      expect((await writingPhase(store, owner, phase)).kind).toBe("lost");
      expect((await store.read(owner.key)).record).toBeNull();
      expect(await countRows(observer, owner.key)).toBe(0);
    });

    test("and a step of that name that is there already: refused, and it stays as it is", async () => {
      const owner = ownerOf(await begin(store));
      expect((await writingPhase(store, owner)).kind).toBe("committed");
      expect(await writingPhase(store, owner, phase)).toMatchObject({ kind: "refused", because: "other" });
      expect(await countRows(observer, owner.key)).toBe(1);
      expect((await store.read(owner.key)).record?.state).toBe("in_progress");
    });

    test("do not fail each other on different keys", async () => {
      for (let round = 0; round < 20; round++) {
        const arrived = Array.from({ length: 4 }, () => deferred());
        const kinds = await Promise.all(
          arrived.map(async (mine) => {
            const owner = ownerOf(await begin(store));
            const outcome = await writingPhase(store, owner, phase, async () => {
              mine.resolve();
              await Promise.all(arrived.map(({ promise }) => promise));
              await store.renew(owner.key, owner.id, owner.fence, 60_000);
            });
            return outcome.kind;
          }),
        );
        expect(kinds).toEqual(["committed", "committed", "committed", "committed"]);
      }
    });

    test("races a take-over: its row is there exactly when its step is, before the new owner reads", async () => {
      const seen = { lost: 0, committed: 0 };
      for (let round = 0; round < 30; round++) {
        const record = await begin(store, { leaseMs: 1 });
        const owner = ownerOf(record);
        await until(async () => (await store.read(owner.key)).now >= record.leaseEndsAt, {
          what: "the lease has ended",
          intervalMs: 1,
        });
        const [outcome, taken] = await Promise.all([
          writingPhase(store, owner, phase),
          store.takeOver(owner.key, guardOf(record), record.fingerprint, "b".repeat(32), terms),
        ]);
        const journal = await store.journal.read(owner.key, owner.id);
        const committed = outcome.kind === "committed";
        seen[committed ? "committed" : "lost"] += 1;
        expect(journal?.steps.length).toBe(committed ? 1 : 0);
        expect(await countRows(observer, owner.key)).toBe(committed ? 1 : 0);
        if (!committed) expect(taken, "somebody has it").not.toBeNull();
        if (committed && completes) expect(taken, "a finished record is nobody's to take").toBeNull();
      }
      expect(seen.committed + seen.lost).toBe(30);
    });
  });

  test("above READ COMMITTED a process that dies right after its COMMIT leaves a lease, which cleaning reaps", async () => {
    const owner = ownerOf(await begin(store, { leaseMs: 1, abandonAfterMs: 1 }));
    const running = ownerOf(await begin(store, { leaseMs: 1, abandonAfterMs: 1 }));
    const lease = await observer.query("select * from latchkey.leases where key = $1", [owner.key.key]);
    await writingPhase(store, owner, { isolation: "repeatable read", end: completing });
    const { rescue_at: _, ...row } = lease.rows[0];
    const columns = Object.keys(row);
    await observer.query(
      `insert into latchkey.leases (${columns.join(", ")}) values (${columns.map((_, n) => `$${n + 1}`).join(", ")})`,
      Object.values(row),
    );
    await store.clean(100);
    expect(await leasesOf(owner.key), "it is too young").toBe(1);
    await observer.query(
      "update latchkey.leases set locked_until = locked_until - interval '2 minutes',\n      abandon_at = abandon_at - interval '2 minutes'",
    );
    await store.clean(100);
    expect(await leasesOf(owner.key)).toBe(0);
    expect(await leasesOf(running.key), "an attempt that nobody has settled keeps its own").toBe(1);
    await observer.query("delete from latchkey.leases");
  });

  test("an error swallowed in it leaves the transaction aborted: refused", async () => {
    const owner = ownerOf(await begin(store));
    const outcome = await writingPhase(store, owner, {}, ({ tx }) =>
      tx.query("select 1 / 0").catch(() => {}),
    );
    expect(outcome).toMatchObject({ kind: "refused", because: "aborted" });
    expect(await countRows(observer, owner.key)).toBe(0);
  });

  test("ended on the raw connection by its own work: changed, and the step is not written", async () => {
    let raw: pg.PoolClient | undefined;
    pool.on("acquire", (client) => {
      raw = client;
    });
    const owner = ownerOf(await begin(store));
    const outcome = await writingPhase(store, owner, {}, async () => raw?.query("commit"));
    expect(outcome.kind).toBe("changed");
    expect(await stepsOf(owner.key)).toEqual([]);
  });

  test("where the end is seen too late, the guard that travels with COMMIT raises", async () => {
    const fast = openPool(url, { max: 3, pipeline: true });
    let raw: pg.PoolClient | undefined;
    fast.on("acquire", (client) => {
      raw = client;
    });
    const behind = postgresStore({ pool: fast });
    const owner = ownerOf(await begin(behind));
    let escaped: Promise<unknown> = Promise.resolve();
    const outcome = await writingPhase(behind, owner, {}, async () => {
      escaped = Promise.all([raw?.query("commit"), raw?.query("begin")]);
    });
    await escaped;
    expect(outcome.kind).toBe("changed");
    expect(await stepsOf(owner.key)).toEqual([]);
    await behind.close();
    await expectNoLeak(fast);
    await fast.end();
  });

  test("one that was idle for too long is ended by the server", async () => {
    const owner = ownerOf(await begin(store));
    const outcome = await writingPhase(store, owner, { idleLimitMs: 100 }, async ({ tx }) => {
      const { rows } = await tx.query<{ pid: number }>("select pg_backend_pid() as pid");
      const isGone = async () => {
        const alive = await observer.query("select 1 from pg_stat_activity where pid = $1", [rows[0]?.pid]);
        return alive.rows.length === 0;
      };
      await until(isGone, { what: "the server has ended it" });
    });
    expect(outcome).toMatchObject({ kind: "refused", because: "other" });
    expect(await countRows(observer, owner.key)).toBe(0);
  });

  test("a retention that forgets the key before its answer is a mistake, and nothing stays", async () => {
    const owner = ownerOf(await begin(store));
    const wrong = { completes: { ...completing.completes, retention: { ...retention, forgetAfterMs: 1 } } };
    await expect(writingPhase(store, owner, { end: wrong })).rejects.toThrow(TypeError);
    expect(await countRows(observer, owner.key)).toBe(0);
  });

  test("they share the places for transactions with everything else", async () => {
    const narrow = openPool(url, { max: 3 });
    const own = postgresStore({ pool: narrow });
    const owner = ownerOf(await begin(own));
    const [entered, leave] = [deferred(), deferred()];
    const first = supportOf(own).run(request(newKey()), async () => {
      entered.resolve();
      await leave.promise;
      return { end: "rollback", value: "" };
    });
    await entered.promise;
    let began = false;
    const second = supportOf(own).phase({ owner, isolation: null, idleLimitMs: 30_000 }, async () => {
      began = true;
      return phaseEnd("one");
    });
    expect(await own.journal.read(owner.key, owner.id), "a connection is left").not.toBeNull();
    expect(began).toBe(false);
    leave.resolve();
    expect((await second).kind).toBe("committed");
    await first;
    await own.close();
    await narrow.end();
  });
});
