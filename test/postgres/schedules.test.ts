/** The schedules of the protocol's review that this store can meet, by their numbers. */
import type pg from "pg";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { decide } from "../../packages/latchkey/src/engine/decide.ts";
import { guardOf, type RecordKey } from "../../packages/latchkey/src/engine/record.ts";
import { hashKeyForLock } from "../../packages/latchkey/src/key/hash-key.ts";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import {
  migratePostgres,
  type PostgresStore,
  postgresStore,
} from "../../packages/latchkey/src/stores/postgres.ts";
import { postgresVersions } from "../support/shared-postgres.ts";
import { startProxy } from "../support/tcp-proxy.ts";
import { backendPid, deferred, until, untilBlocked, within } from "../support/until.ts";
import {
  answer,
  commitOf,
  countRows,
  newKey,
  newLife,
  request,
  retention,
  supportOf,
  terms,
  writing,
} from "./arrange.ts";
import { endlessMs, expectNoLeak, migratedDatabase, openPool, patientClock, type TestTx } from "./harness.ts";

/** A record of somebody else's, written past every store. */
const insertRecord = `
  insert into latchkey.records (tenant, scope, key, id, operation, state, fingerprint_version, fingerprint, attempt,
    token, created_at)
  values ($1, $2, $3, gen_random_uuid(), 'other', 'retryable', 1, '\\x00', 1, gen_random_uuid(), now())`;

const complete = { event: "complete", answer, retention, errorCode: null } as const;

describe.each(postgresVersions())("schedules on PostgreSQL %i", (version) => {
  let url: string;
  let observer: pg.Pool;
  let pool: pg.Pool;
  let store: PostgresStore<TestTx>;

  beforeAll(async () => {
    url = await migratedDatabase(version);
    observer = openPool(url);
  });

  beforeEach(async () => {
    pool = openPool(url, { max: 6 });
    store = postgresStore({ pool });
    return async () => {
      await store.close();
      await expectNoLeak(pool);
      await pool.end();
    };
  });

  const isFree = (key: RecordKey) =>
    supportOf(store).run(request(key), async ({ exclusive }) => ({ end: "rollback", value: exclusive }));

  test("1: a record that appeared makes the commit raise, and the business row goes with it", async () => {
    const life = newLife(newKey());
    const outcome = await writing(store, life, async () => {
      expect(await store.create(newLife(life), null, terms)).not.toBeNull();
    });
    expect(outcome.kind).toBe("lost");
    expect(await countRows(observer, life)).toBe(0);
  });

  describe.each([null, "read committed", "repeatable read", "serializable"] as const)(
    "1: at %s",
    (isolation) => {
      test("a record that appears in time: the loser's rows are gone, and it decides again", async () => {
        const latchkey = createLatchkey({ store });
        const operation = latchkey.operation("orders.create", isolation === null ? {} : { isolation });
        const { key } = newKey();
        const row = { tenant: "t", scope: "orders.create", key };
        let runs = 0;
        const result = await latchkey.run(operation, { tenant: "t", key, input: "mine" }, async ({ tx }) => {
          runs += 1;
          await tx.query("insert into business values ($1)", [key]);
          expect((await writing(store, newLife(row))).kind).toBe("committed");
          return "answer to mine";
        });
        expect(result.kind).toBe("key_misuse");
        expect(runs).toBe(1);
        expect(await countRows(observer, row)).toBe(1);
      });

      test.each([
        ["commit", "lost"],
        ["rollback", "committed"],
      ] as const)("one that appears while COMMIT is under way, and ends with %s: %s", async (end, kind) => {
        const life = newLife(newKey());
        const other = await observer.connect();
        await other.query("begin");
        const owner = deferred<number>();
        const committing = writing(
          store,
          life,
          async ({ tx }) => {
            await other.query(insertRecord, [life.tenant, life.scope, life.key]);
            owner.resolve(await backendPid(tx));
          },
          { isolation },
        );
        await untilBlocked(url, await owner.promise);
        await other.query(end);
        other.release();
        expect((await committing).kind).toBe(kind);
        expect(await countRows(observer, life)).toBe(kind === "committed" ? 1 : 0);
        expect((await store.read(life)).record?.id === life.id).toBe(kind === "committed");
      });
    },
  );

  test("1: a take-over of the retryable life that it goes on with, the same", async () => {
    const key = newKey();
    const first = newLife(key);
    await store.create(first, null, terms);
    await store.end(key, first.id, first.fence, {
      event: "retry_later",
      errorCode: "x",
      resumeAfterMs: null,
    });
    const { record } = await store.read(key);
    if (record === null) throw new Error("the record must be there");
    const next = newLife(key, { id: first.id, fence: { attempt: 2, token: "a".repeat(32) } });
    const outcome = await supportOf(store).run(request(key), async ({ tx }) => {
      await tx.query("insert into business values ($1)", [key.key]);
      expect(
        await store.takeOver(key, guardOf(record), first.fingerprint, "b".repeat(32), terms),
      ).not.toBeNull();
      return commitOf(next, guardOf(record));
    });
    expect(outcome.kind).toBe("lost");
    expect(await countRows(observer, key)).toBe(0);
  });

  test("3: two bodies under one key: the loser decides again with its own fingerprint", async () => {
    const latchkey = createLatchkey({ store });
    const operation = latchkey.operation("orders.create");
    const { key } = newKey();
    let runs = 0;
    const result = await latchkey.run(operation, { tenant: "t", key, input: "mine" }, async ({ tx }) => {
      runs += 1;
      await tx.query("insert into business values ($1)", [key]);
      const other = newLife({ tenant: "t", scope: "orders.create", key });
      await store.create(other, null, terms);
      await store.end(other, other.id, other.fence, complete);
      return "answer to mine";
    });
    expect(result.kind).toBe("key_misuse");
    expect(runs).toBe(1);
    expect(await countRows(observer, { tenant: "t", scope: "orders.create", key })).toBe(0);
  });

  test("4: retention is over, the row is still there: one of many runs, and its answer is the one that stays", async () => {
    const key = newKey();
    const old = newLife(key);
    const short = { retentionMs: 1, forgetAfterMs: 1 };
    await supportOf(store).run(request(key), async () => commitOf(old, null, { retention: short }));
    const isForgotten = async () => {
      const { record, now } = await store.read(key);
      return record?.state === "completed" && now >= record.forgetAt;
    };
    await until(isForgotten, { what: "the old answer is past its time" });
    const { record } = await store.read(key);
    if (record === null) throw new Error("the row must still be there");
    const guard = guardOf(record);
    const arrived = Array.from({ length: 4 }, () => deferred());
    const outcomes = await Promise.all(
      arrived.map((mine) =>
        supportOf(store).run(request(key), async ({ tx }) => {
          await tx.query("insert into business values ($1)", [key.key]);
          mine.resolve();
          await Promise.all(arrived.map(({ promise }) => promise));
          return commitOf(newLife(key), guard);
        }),
      ),
    );
    expect(outcomes.map(({ kind }) => kind).sort()).toEqual(["committed", "lost", "lost", "lost"]);
    expect(await countRows(observer, key)).toBe(1);
    expect((await store.read(key)).record?.id).not.toBe(old.id);
  });

  test("11: a frozen worker does not keep its key; thawed, it commits nothing", async () => {
    const life = newLife(newKey());
    const [entered, thawed] = [deferred(), deferred()];
    const frozen = writing(
      store,
      life,
      async () => {
        entered.resolve();
        await thawed.promise;
      },
      { idleLimitMs: 300 },
    );
    await entered.promise;
    await until(async () => (await isFree(life)).value, { what: "the key is free again" });
    const second = newLife(life);
    expect((await writing(store, second)).kind).toBe("committed");
    thawed.resolve();
    expect(await frozen).toMatchObject({ kind: "refused", because: "other" });
    expect(await countRows(observer, life)).toBe(1);
    expect((await store.read(life)).record?.id).toBe(second.id);
  });

  test("11: a statement that outlives its caller does not keep the key either", async () => {
    const life = newLife(newKey());
    const blocker = await observer.connect();
    await blocker.query("begin; lock table business in access exclusive mode");
    const outcome = await supportOf(store).run(request(life, { idleLimitMs: 300 }), async ({ tx }) => {
      tx.query("insert into business values ('x')").catch(() => {});
      return { end: "abandon", value: "" };
    });
    expect(outcome.kind).toBe("rolled_back");
    await until(async () => (await isFree(life)).value, { what: "the key is free again" });
    await blocker.query("rollback");
    blocker.release();
  });

  test("12: neither admission nor a look-up waits behind a transaction that has changed the row", async () => {
    const key = newKey();
    const life = newLife(key);
    const record = await store.create(life, null, terms);
    if (record === null) throw new Error("the record must be there");
    const phase = await observer.connect();
    await phase.query("begin");
    await phase.query("update latchkey.records set recovery_point = 'one' where key = $1", [key.key]);
    const guard = guardOf(record);
    const [created, accepted, read, taken, given] = await within(
      Promise.all([
        store.create(newLife(key), null, terms),
        store.accept(newLife(key), null, 1_000),
        store.read(key),
        store.takeOver(key, guard, life.fingerprint, "b".repeat(32), terms),
        store.giveUp(key, guard, "x", null),
      ]),
      "nothing waits for the phase",
      5_000,
    );
    expect([created, accepted, taken, given]).toEqual([null, null, null, false]);
    expect(read.record?.id).toBe(life.id);
    await phase.query("commit");
    phase.release();
  });

  test("12: a take-over does not wait for a phase either, even when the lease has ended", async () => {
    const key = newKey();
    const life = newLife(key);
    const record = await store.create(life, null, { ...terms, leaseMs: 1 });
    if (record === null) throw new Error("the record must be there");
    await until(async () => (await store.read(key)).now >= record.leaseEndsAt, {
      what: "the lease has ended",
    });
    const phase = await observer.connect();
    for (const table of ["records", "leases"]) {
      await phase.query("begin");
      await phase.query(`select 1 from latchkey.${table} where key = $1 for update`, [key.key]);
      const takeOver = store.takeOver(key, guardOf(record), life.fingerprint, "b".repeat(32), terms);
      expect(await within(takeOver, "take-over answers", 5_000), table).toBeNull();
      expect(await within(store.giveUp(key, guardOf(record), "x", null), "giving up answers", 5_000)).toBe(
        false,
      );
      await phase.query("rollback");
    }
    phase.release();
    expect(
      await store.takeOver(key, guardOf(record), life.fingerprint, "b".repeat(32), terms),
    ).not.toBeNull();
  });

  test("13: heartbeats go on while a phase holds the record, and a REPEATABLE READ phase still completes it", async () => {
    const key = newKey();
    const life = newLife(key);
    await store.create(life, null, terms);
    const phase = await observer.connect();
    await phase.query("begin isolation level repeatable read");
    await phase.query("update latchkey.records set recovery_point = 'one' where key = $1", [key.key]);
    for (let beat = 0; beat < 3; beat++) {
      expect(await within(store.renew(key, life.id, life.fence, 60_000), "the heartbeat", 5_000)).toBe(true);
    }
    await phase.query("update latchkey.records set recovery_point = 'two' where key = $1", [key.key]);
    await phase.query("commit");
    phase.release();
    expect(await store.end(key, life.id, life.fence, complete)).not.toBeNull();
  });

  test("14: waiting duplicates hold no connection, so the owner's own pool queries go through", async () => {
    const latchkey = createLatchkey({ store });
    const operation = latchkey.operation("orders.create", { waitMs: 10_000 });
    const { key } = newKey();
    const input = { tenant: "t", key, input: 1 };
    const [entered, leave] = [deferred(), deferred()];
    const owner = latchkey.run(operation, input, async ({ tx }) => {
      entered.resolve();
      await leave.promise;
      await Promise.all(Array.from({ length: 5 }, () => pool.query("select 1")));
      await tx.query("insert into business values ($1)", [key]);
      return "answer";
    });
    await entered.promise;
    const duplicates = Array.from({ length: 20 }, () => latchkey.run(operation, input, async () => "never"));
    await until(() => pool.idleCount > 0, { what: "duplicates give their connections back" });
    leave.resolve();
    expect((await owner).kind).toBe("executed");
    for (const result of await Promise.all(duplicates))
      expect(result).toMatchObject({ kind: "replay", value: "answer" });
    expect(await countRows(observer, { tenant: "t", scope: "orders.create", key })).toBe(1);
  });

  test("14: the look-up sees what the former holder of the lock has committed", async () => {
    for (let round = 0; round < 20; round++) {
      const key = newKey();
      const both = await Promise.all(
        [newLife(key), newLife(key)].map((life) =>
          supportOf(store).run(request(key), async ({ reading, exclusive, tx }) => {
            if (reading.record !== null || !exclusive) return { end: "rollback", value: "stood back" };
            await tx.query("insert into business values ($1)", [key.key]);
            return commitOf(life);
          }),
        ),
      );
      expect(both.filter(({ kind }) => kind === "lost")).toEqual([]);
      expect(await countRows(observer, key)).toBe(1);
    }
  });

  test("15: SERIALIZABLE transactions of different keys do not fail each other", async () => {
    for (let round = 0; round < 20; round++) {
      const arrived = [deferred(), deferred()];
      const kinds = await Promise.all(
        arrived.map(async (mine) => {
          const life = newLife(newKey());
          const outcome = await supportOf(store).run(
            request(life, { isolation: "serializable" }),
            async () => {
              mine.resolve();
              await Promise.all(arrived.map(({ promise }) => promise));
              return commitOf(life);
            },
          );
          return outcome.kind;
        }),
      );
      expect(kinds).toEqual(["committed", "committed"]);
    }
  });

  test.each(["repeatable read", "serializable"] as const)(
    "15: at %s one of two transactions of a key commits, whatever each has seen",
    async (isolation) => {
      const key = newKey();
      const arrived = [deferred(), deferred()];
      const outcomes = await Promise.all(
        arrived.map((mine) => {
          const life = newLife(key);
          return writing(
            store,
            life,
            async () => {
              mine.resolve();
              await Promise.all(arrived.map(({ promise }) => promise));
            },
            { isolation },
          );
        }),
      );
      const kinds = outcomes.map((outcome) => (outcome.kind === "refused" ? outcome.because : outcome.kind));
      expect(kinds.filter((kind) => kind === "committed")).toHaveLength(1);
      expect(kinds.every((kind) => ["committed", "lost", "serialization"].includes(kind))).toBe(true);
      expect(await countRows(observer, key)).toBe(1);
    },
  );

  test("17: a COMMIT on the raw connection, whoever sends it, leaves an unknown record and no second run", async () => {
    let raw: pg.PoolClient | undefined;
    pool.on("acquire", (client) => {
      raw = client;
    });
    const latchkey = createLatchkey({ store });
    const operation = latchkey.operation("orders.create");
    const { key } = newKey();
    const row = { tenant: "t", scope: "orders.create", key };
    const submit = () =>
      latchkey.run(operation, { tenant: "t", key, input: 1 }, async ({ tx }) => {
        await tx.query("insert into business values ($1)", [key]);
        await raw?.query("commit");
        return "answer";
      });
    expect((await submit()).kind).toBe("unknown");
    expect((await submit()).kind).toBe("unknown");
    expect(await countRows(observer, row)).toBe(1);
  });

  test("17: where the end is seen too late, the guard that travels with COMMIT raises", async () => {
    // In pipeline mode our last flight leaves before the server has answered what the handler sent past `tx`.
    const fast = openPool(url, { max: 3, pipeline: true });
    let raw: pg.PoolClient | undefined;
    fast.on("acquire", (client) => {
      raw = client;
    });
    const life = newLife(newKey());
    let escaped: Promise<unknown> = Promise.resolve();
    const outcome = await writing(postgresStore({ pool: fast }), life, async () => {
      escaped = Promise.all([raw?.query("commit"), raw?.query("begin")]);
    });
    await escaped;
    expect(outcome.kind).toBe("changed");
    expect((await store.read(life)).record).toBeNull();
    expect(await countRows(observer, life), "the handler's own doing").toBe(1);
    await expectNoLeak(fast);
    await fast.end();
  });

  test("17: and that COMMIT counts when the handler then throws, even a serialization failure", async () => {
    let raw: pg.PoolClient | undefined;
    pool.on("acquire", (client) => {
      raw = client;
    });
    const latchkey = createLatchkey({ store });
    const operation = latchkey.operation("orders.create");
    const { key } = newKey();
    const submit = () =>
      latchkey.run(operation, { tenant: "t", key, input: 1 }, async ({ tx }) => {
        await tx.query("insert into business values ($1)", [key]);
        await raw?.query("commit");
        throw Object.assign(new Error("serialization"), { code: "40001" });
      });
    expect((await submit()).kind).toBe("unknown");
    expect((await submit()).kind).toBe("unknown");
    expect(await countRows(observer, { tenant: "t", scope: "orders.create", key })).toBe(1);
  });

  test("17: the same key again, inside its own handler, is not alone", async () => {
    const key = newKey();
    await writing(store, newLife(key), async () => {
      const inner = await supportOf(store).run(request(key), async ({ exclusive }) => ({
        end: "rollback",
        value: exclusive,
      }));
      expect(inner.value).toBe(false);
    });
  });

  test("20: an admission whose reply was lost is found again as one's own", async () => {
    const proxy = await startProxy({ to: { port: Number(new URL(url).port) } });
    const narrow = openPool(proxy.url(url), { max: 4 });
    const { ports, giveUp } = patientClock();
    const behind = postgresStore({ pool: narrow, statementTimeoutMs: endlessMs, ports });
    const before = newLife(newKey());
    await behind.create(before, null, terms);
    const life = newLife(newKey());
    const hold = proxy.holdReplyWhen(({ tag }) => tag === "SELECT 1");
    const created = behind.create(life, null, terms);
    void hold.held().then(giveUp);
    await expect(created).rejects.toMatchObject({ certainty: "in_doubt" });
    hold.drop();
    const { record, now } = await behind.read(life);
    const verdict = decide(
      record,
      { ...life, token: life.fence.token, reuse: "reject", leaseEnd: "rerun", attemptsMax: 5 },
      now,
    );
    expect(verdict.kind).toBe("own");
    expect(await behind.renew(life, life.id, life.fence, 60_000), "and its heartbeat works").toBe(true);
    await behind.close();
    await expectNoLeak(narrow);
    await narrow.end();
  });

  test("22: a duplicate learns at once that the key runs, before and during its last write", async () => {
    const life = newLife(newKey());
    const blocker = await observer.connect();
    await blocker.query("begin; lock table latchkey.records in share mode");
    const ready = deferred<number>();
    const run = writing(store, life, async ({ tx }) => ready.resolve(await backendPid(tx)));
    await untilBlocked(url, await ready.promise);
    const duplicate = supportOf(store).run(request(life), async ({ exclusive }) => ({
      end: "rollback",
      value: exclusive,
    }));
    expect((await within(duplicate, "the duplicate", 5_000)).value).toBe(false);
    await blocker.query("rollback");
    blocker.release();
    expect((await run).kind).toBe("committed");
  });

  test("26: the lock's number is keyed with a secret of this schema alone", async () => {
    await migratePostgres(observer, { schema: "second" });
    const secretOf = async (schema: string) =>
      (
        await observer.query<{ value: string }>(
          `select value from ${schema}.settings where name = 'lock_secret'`,
        )
      ).rows[0]?.value ?? "";
    const [first, second] = [await secretOf("latchkey"), await secretOf("second")];
    expect(first).toMatch(/^[0-9a-f]{64}$/);
    expect(second).not.toBe(first);
    const life = newLife(newKey());
    await writing(store, life, async ({ tx }) => {
      const { rows } = await tx.query<{ number: string }>(
        `select ((classid::bigint << 32) | objid::bigint)::text as number
         from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()`,
      );
      expect(rows).toEqual([{ number: hashKeyForLock(first, life.tenant, life.scope, life.key).toString() }]);
    });
  });
});
