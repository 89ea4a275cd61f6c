/** Reservations, ends and renewals of many attempts at once: each caller gets the outcome of its own, as if it had come alone. */
import { setImmediate as nextTurn } from "node:timers/promises";
import type pg from "pg";
import { beforeAll, expect, test } from "vitest";
import type { LatchkeyRecord, RecordKey } from "../../packages/latchkey/src/engine/record.ts";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import type { NewLife } from "../../packages/latchkey/src/stores/life.ts";
import { type PostgresStore, postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import type { AttemptEnd } from "../../packages/latchkey/src/stores/store.ts";
import { patient } from "../support/patience.ts";
import { forEachPostgres } from "../support/shared-postgres.ts";
import { type ProxyMessage, startProxy } from "../support/tcp-proxy.ts";
import { backendPid, until, within } from "../support/until.ts";
import { newKey, newLife, retention, terms } from "./arrange.ts";
import { expectNoLeak, migratedDatabase, openPool, type TestTx } from "./harness.ts";
import { begin, completing, ownerOf, writingPhase } from "./owned.ts";

type Result<T> = PromiseSettledResult<T>;

const bytes = (text: string) => new TextEncoder().encode(text);
const completed = (text: string): AttemptEnd => ({
  event: "complete",
  answer: bytes(text),
  errorCode: null,
  retention,
});
const create = (store: PostgresStore<TestTx>, lives: readonly NewLife[]) =>
  Promise.allSettled(lives.map((life) => store.create(life, null, terms)));
const end = (store: PostgresStore<TestTx>, lives: readonly NewLife[]) =>
  Promise.allSettled(lives.map((life) => store.end(life, life.id, life.fence, completed(`of ${life.id}`))));
const begun = <T>(results: readonly Result<T | null>[]) =>
  results.map((one) => (one.status === "fulfilled" ? one.value !== null : one.reason));
const answerOf = (record: LatchkeyRecord | null) =>
  record !== null && "answer" in record ? new TextDecoder().decode(record.answer ?? undefined) : null;
const all = (count: number) => Array.from({ length: count }, () => true);
const lives = (count: number, of: () => Partial<NewLife> = () => ({})) =>
  Array.from({ length: count }, () => newLife(newKey(), of()));
const unavailable = (certainty: string) => expect.objectContaining({ code: "store-unavailable", certainty });

forEachPostgres((version) => {
  let url = "";
  beforeAll(async () => {
    url = await migratedDatabase(version);
  });

  /** A store of its own, all of whose connections are given back in the end. */
  async function withStore(
    work: (store: PostgresStore<TestTx>, pool: pg.Pool) => Promise<void>,
    { at = url, max = 8, ...options }: { at?: string; max?: number; statementTimeoutMs?: number } = {},
  ) {
    const pool = openPool(at, { max });
    const store = postgresStore({ pool, connectTimeoutMs: patient(10_000), ...options });
    try {
      await work(store, pool);
    } finally {
      await store.close();
    }
    await expectNoLeak(pool);
    await pool.end();
  }

  /** The records and leases of these lives, as the database has them, without their times. */
  async function stored(pool: pg.Pool, some: readonly NewLife[]) {
    const { rows } = await pool.query<{ record: Record<string, unknown>; lease: Record<string, unknown> }>(
      `select to_jsonb(r) - 'created_at' - 'expires_at' as record, to_jsonb(l) - 'locked_until' - 'abandon_at' - 'rescue_at'
         as lease, r.expires_at - r.created_at as kept, l.locked_until - r.created_at as leased
       from latchkey.records r left join latchkey.leases l on l.record_id = r.id
       where r.id = any ($1) order by pg_catalog.array_position($1, r.id)`,
      [some.map(({ id }) => id)],
    );
    return rows;
  }

  const prepared = async (pool: pg.Pool, max: number) => {
    const clients = await Promise.all(Array.from({ length: max }, () => pool.connect()));
    const found: string[] = [];
    for (const client of clients) {
      const { rows } = await client.query<{ name: string }>("select name from pg_prepared_statements");
      found.push(...rows.map(({ name }) => name.replace(/^lk_|_[0-9a-f]+$/gu, "")));
      client.release();
    }
    return new Set(found);
  };

  test("write what single ones write, of every kind of life", async () => {
    const odd = `"'\\,${"\u{1F511}"}\u0001`;
    const kinds = (): NewLife[] => [
      ...lives(3),
      ...lives(3, () => ({
        principal: odd,
        trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
      })),
      ...lives(3, () => ({ input: new Uint8Array([0, 1, 255]), summary: bytes(odd), addressable: true })),
      newLife(newKey({ tenant: odd, scope: odd, key: odd + newKey().key }), {
        input: Buffer.alloc(20_000, 7),
      }),
    ];
    const plain = (rows: readonly object[]) =>
      JSON.parse(JSON.stringify(rows).replaceAll(/[0-9a-f-]{32,36}|key-\d+/gu, "…"));
    await withStore(async (store, pool) => {
      const [alone, together] = [kinds(), kinds()];
      for (const life of alone) await store.create(life, null, terms);
      const results = await create(store, together);
      for (const [place, result] of results.entries()) {
        const found = await store.read(together[place] as NewLife);
        expect(result).toEqual({ status: "fulfilled", value: found.record });
      }
      const rows = await stored(pool, together);
      expect(rows).toHaveLength(together.length);
      expect(plain(rows)).toEqual(plain(await stored(pool, alone)));
      for (const life of alone) await store.end(life, life.id, life.fence, completed(`of ${life.id}`));
      const ends = await end(store, together);
      for (const [place, result] of ends.entries()) {
        const { record } = await store.read(together[place] as NewLife);
        expect([record?.state, answerOf(record)]).toEqual(["completed", `of ${record?.id}`]);
        const expiresAt = record !== null && "expiresAt" in record ? record.expiresAt : null;
        expect(result).toEqual({ status: "fulfilled", value: { expiresAt } });
      }
      const finished = (of: readonly NewLife[]) =>
        pool.query(
          `select state, last_error_code, input, forget_at - finished_at as forgotten, expires_at - finished_at as kept
           from latchkey.records where id = any ($1) order by array_position($1, id)`,
          [of.map(({ id }) => id)],
        );
      expect((await finished(together)).rows).toEqual((await finished(alone)).rows);
      await store.close();
      const names = await prepared(pool, 8);
      expect([...names]).toEqual(expect.arrayContaining(["create_many", "finish_many"]));
    });
  });

  test("of one key have one winner, and the others get null", async () => {
    await withStore(async (store) => {
      const keys = [newKey(), newKey(), newKey()];
      const rivals = Array.from({ length: 36 }, (_, place) => newLife(keys[place % 3] ?? newKey()));
      const results = await create(store, rivals);
      for (const key of keys) {
        const { record } = await store.read(key);
        const winners = rivals.filter(
          (life, place) => life.key === key.key && begun(results)[place] === true,
        );
        expect(winners.map(({ id, fence }) => ({ id, fence }))).toEqual([
          { id: record?.id, fence: record?.fence },
        ]);
      }
      expect(begun(results).filter((won) => won !== true)).toEqual(all(33).map(() => false));
    });
  });

  test("end an attempt under its own fence: an owner that has lost it gets null, and its neighbours end", async () => {
    await withStore(async (store, pool) => {
      const some = lives(12);
      await create(store, some);
      const lost = [some[4], some[7]] as NewLife[];
      const ids = lost.map(({ id }) => id);
      await pool.query(
        "update latchkey.records set attempt = 2, token = gen_random_uuid() where id = any ($1)",
        [ids],
      );
      await pool.query(
        "update latchkey.leases set attempt = 2, token = gen_random_uuid() where record_id = any ($1)",
        [ids],
      );
      expect(begun(await end(store, some))).toEqual(some.map((life) => !lost.includes(life)));
      for (const life of some) {
        const { record } = await store.read(life);
        if (lost.includes(life)) expect(record?.state).toBe("in_progress");
        else expect(answerOf(record)).toBe(`of ${life.id}`);
      }
      const { rows } = await pool.query("select record_id from latchkey.leases where record_id = any ($1)", [
        some.map(({ id }) => id),
      ]);
      expect(rows.map(({ record_id: id }) => id).sort()).toEqual(ids.sort());
    });
  });

  test("renew each lease under its own fence", async () => {
    await withStore(async (store, pool) => {
      const some = lives(12);
      await create(store, some);
      await pool.query("update latchkey.leases set token = gen_random_uuid() where record_id = $1", [
        some[3]?.id,
      ]);
      await pool.query("update latchkey.leases set locked_until = now() where record_id = $1", [some[8]?.id]);
      const twice = [...some, ...some];
      const renewed = await Promise.all(twice.map((life) => store.renew(life, life.id, life.fence, 90_000)));
      expect(renewed).toEqual(twice.map((_, place) => place % 12 !== 3 && place % 12 !== 8));
      const { rows } = await pool.query(
        "select array_position($1, record_id) - 1 as place, locked_until > now() + interval '80 seconds' as long from latchkey.leases where record_id = any ($1)",
        [some.map(({ id }) => id)],
      );
      expect(
        rows
          .filter(({ long }) => !long)
          .map(({ place }) => place)
          .sort(),
      ).toEqual([3, 8]);
    });
  });

  test("fail for the caller alone whose row the database refuses", async () => {
    await withStore(async (store) => {
      const some = lives(12);
      some[5] = newLife(newKey(), { principal: "\u0000" });
      some[9] = newLife(newKey(), { principal: "\ud800" });
      const results = begun(await create(store, some));
      expect(results[5]).toEqual(unavailable("rolled_back"));
      expect(results.map((result, place) => place === 5 || result)).toEqual(all(12));
      const ends = await Promise.allSettled(
        some.map((life, place) => {
          const one = completed(`of ${life.id}`);
          const bad = { ...one, event: "fail" as const, errorCode: "\u0000" } as AttemptEnd;
          return store.end(life, life.id, life.fence, place === 2 ? bad : one);
        }),
      );
      expect(begun(ends).map((result, place) => (place === 2 ? result : result === (place !== 5)))).toEqual(
        some.map((_, place) => (place === 2 ? unavailable("rolled_back") : true)),
      );
    });
  });

  test("that the server would refuse one by one, too, fail together and are sent once", async () => {
    const proxy = await startProxy({ to: { port: Number(new URL(url).port) } });
    const readOnly = "-c default_transaction_read_only=on";
    await withStore(
      async (store) => {
        await create(store, lives(1));
        const some = lives(12);
        const sent: ProxyMessage[] = [];
        const stop = proxy.observe((message) => {
          if (message.direction === "up") sent.push(message);
        });
        const results = begun(await create(store, some));
        stop();
        expect(results).toEqual(some.map(() => unavailable("rolled_back")));
        expect(new Set(results).size).toBeLessThan(some.length);
        const times = some.map(({ id }) => sent.filter(({ bytes: own }) => own.includes(id)).length);
        expect(times).toEqual(some.map(() => 1));
      },
      { at: `${proxy.url(url)}?options=${encodeURIComponent(readOnly)}` },
    );
    await proxy.close();
  });

  test("wait for a lock alone", async () => {
    await withStore(async (store, pool) => {
      const some = lives(12);
      const [locked] = some as [NewLife];
      const other = await pool.connect();
      const pid = await backendPid(other);
      const waits = async () => {
        const { rows } = await pool.query(
          "select from pg_stat_activity where $1 = any (pg_blocking_pids(pid))",
          [pid],
        );
        return rows.length > 0;
      };
      await other.query("begin");
      await other.query(
        `insert into latchkey.records (tenant, scope, key, id, operation, state, fingerprint_version, fingerprint, attempt, token, created_at, expires_at)
         values ($1, $2, $3, gen_random_uuid(), 'x', 'pending', 1, '', 1, gen_random_uuid(), now(), now())`,
        [locked.tenant, locked.scope, locked.key],
      );
      const created = some.map((life) => store.create(life, null, terms));
      expect(begun(await Promise.allSettled(created.slice(1)))).toEqual(all(11));
      await until(waits, { what: "the other one waits" });
      await other.query("rollback");
      expect(await created[0]).not.toBe(null);
      await other.query("begin");
      await other.query("select from latchkey.leases where record_id = $1 for update", [locked.id]);
      const ended = some.slice(1).map((life) => store.end(life, life.id, life.fence, completed("x")));
      expect(begun(await Promise.allSettled(ended))).toEqual(all(11));
      const last = store.end(locked, locked.id, locked.fence, completed("x"));
      await until(waits, { what: "its end waits for the lock" });
      await other.query("rollback");
      other.release();
      expect(await last).not.toBe(null);
    });
  });

  const renew = (
    store: PostgresStore<TestTx>,
    { id, fence, ...life }: Pick<NewLife, keyof RecordKey | "id" | "fence">,
  ) => store.renew(life, id, fence, 90_000);
  /** The first of these lives has its lease locked: the others are renewed although that stays so. */
  async function expectOthersRenewed(store: PostgresStore<TestTx>, some: Parameters<typeof renew>[1][]) {
    const [locked, ...others] = some as [NewLife, ...NewLife[]];
    const renewed = async (what: string) => {
      const results = await within(Promise.all(others.map((life) => renew(store, life))), what, 5_000);
      expect(results, what).toEqual(all(others.length));
    };
    const inBatch = Promise.allSettled([renew(store, locked)]);
    await renewed("renewals in the same statement");
    expect(begun(await inBatch)).toEqual([unavailable("rolled_back")]);
    const alone = Promise.allSettled([renew(store, locked)]);
    await nextTurn();
    await renewed("renewals behind a single statement");
    expect(begun(await alone)).toEqual([unavailable("rolled_back")]);
  }
  /** In a transaction beside the store, which is rolled back. */
  async function inTransactionOf<T>(pool: pg.Pool, work: (other: pg.PoolClient) => Promise<T>): Promise<T> {
    const other = await pool.connect();
    await other.query("begin");
    try {
      return await work(other);
    } finally {
      await other.query("rollback");
      other.release();
    }
  }
  // Longer than the test waits: the client's time limit must not be what ends a renewal.
  const endless = { statementTimeoutMs: patient(120_000) };

  test("renew all leases but one that another transaction has locked", async () => {
    await withStore(async (store, pool) => {
      const some = lives(12);
      await create(store, some);
      await inTransactionOf(pool, async (other) => {
        await other.query("select from latchkey.leases where record_id = $1 for update", [some[0]?.id]);
        await expectOthersRenewed(store, some);
      });
      for (const life of some) expect(await renew(store, life)).toBe(true);
      await end(store, some);
    }, endless);
  });

  test("renew all leases but that of a last phase whose COMMIT waits for another transaction", async () => {
    await withStore(async (store, pool) => {
      await pool.query("create table seats (seat text unique deferrable initially deferred)");
      const [phased, ...others] = [await begin(store), await begin(store), await begin(store)];
      const takeSeat = "insert into seats values ('1a')";
      const outcome = await inTransactionOf(pool, async (other) => {
        const pid = await backendPid(other);
        await other.query(takeSeat);
        const phase = writingPhase(store, ownerOf(phased), { end: completing }, ({ tx }) =>
          tx.query(takeSeat),
        );
        const waits = async () => {
          const { rows } = await pool.query(
            "select from pg_stat_activity where $1 = any (pg_blocking_pids(pid)) and query ilike 'commit%'",
            [pid],
          );
          return rows.length > 0;
        };
        await until(waits, { what: "the COMMIT waits" });
        await expectOthersRenewed(store, [phased, ...others]);
        expect(await waits(), "it still waits").toBe(true);
        return { phase };
      });
      expect((await outcome.phase).kind).toBe("committed");
      for (const { fence, id, ...key } of others) await store.end(key, id, fence, { event: "release" });
    }, endless);
  });

  test("of the same keys from two processes, in opposite orders, meet no deadlock", async () => {
    const deadlocks = async (pool: pg.Pool) =>
      (await pool.query("select deadlocks from pg_stat_database where datname = current_database()")).rows[0];
    await withStore(async (left, pool) => {
      await withStore(async (right) => {
        const before = await deadlocks(pool);
        for (let round = 0; round < 10; round += 1) {
          const keys = Array.from({ length: 30 }, () => newKey());
          const mine = keys.map((key) => newLife(key));
          const others = keys.toReversed().map((key) => newLife(key));
          const [ours, theirs] = await Promise.all([create(left, mine), create(right, others)]);
          const won = begun(theirs).toReversed();
          expect(begun(ours)).toEqual(won.map((one) => one === false));
        }
        expect(await deadlocks(pool)).toEqual(before);
      });
    });
  });

  test.each([
    ["reservations", "request"],
    ["reservations", "reply"],
    ["ends", "request"],
    ["ends", "reply"],
  ] as const)(
    "%s whose %s is lost are in doubt for each of their callers, and are not repeated",
    async (what, lost) => {
      const proxy = await startProxy({ to: { port: Number(new URL(url).port) } });
      await withStore(
        async (store, pool) => {
          // The role is checked once, and after that twelve writes are made in the same turn.
          await create(store, lives(1));
          const some = lives(12);
          if (what === "ends") await create(store, some);
          const { id } = some[7] as NewLife;
          const carries = ({ bytes: own }: ProxyMessage) => own.includes(id);
          const sent: ProxyMessage[] = [];
          const stop = proxy.observe((message) => {
            if (carries(message)) sent.push(message);
          });
          const hold = lost === "request" ? proxy.holdWhen(carries) : proxy.holdReplyWhen(carries);
          const results = what === "ends" ? end(store, some) : create(store, some);
          await hold.held();
          hold.drop();
          const outcomes = begun(await results);
          stop();
          const doubtful = outcomes.filter((one) => one !== true);
          expect(doubtful.length).toBeGreaterThan(1);
          expect(new Set(doubtful).size, "one failure for the circuit breaker").toBe(1);
          expect(doubtful[0]).toEqual(unavailable("in_doubt"));
          expect(sent).toHaveLength(lost === "request" ? 0 : 1);
          const { rows } = await pool.query<{ id: string }>(
            "select id from latchkey.records where id = any ($1) and state = any ($2)",
            [some.map((life) => life.id), what === "ends" ? ["completed"] : ["in_progress"]],
          );
          const done = some.filter((_, place) => lost === "reply" || outcomes[place] === true);
          expect(rows.map((row) => row.id).sort()).toEqual(done.map((life) => life.id).sort());
        },
        { at: proxy.url(url) },
      );
      await proxy.close();
    },
  );

  test("that come with a warning at COMMIT are written, or in doubt together", async () => {
    const own = await migratedDatabase(version);
    const operator = openPool(own, { max: 1 });
    await operator.query(`
      create function warn() returns trigger language plpgsql as
        $$ begin raise warning 'as of a cancelled wait'; return null; end $$;
      create constraint trigger warn after insert or update on latchkey.records deferrable initially deferred
        for each row execute function warn()`);
    for (const level of ["error", "warning"]) {
      await withStore(
        async (store) => {
          const some = lives(12);
          expect(begun(await create(store, some)), "the barrier after it comes without a warning").toEqual(
            all(12),
          );
          expect(begun(await end(store, some))).toEqual(all(12));
        },
        { at: `${own}?options=${encodeURIComponent(`-c client_min_messages=${level}`)}` },
      );
    }
    await operator.end();
  });

  test("leave nobody waiting when the store is closed or the pool ends", async () => {
    const pool = openPool(url, { max: 4 });
    const store = postgresStore({ pool, connectTimeoutMs: 500 });
    const some = lives(20);
    const created = create(store, some);
    await store.close();
    expect(begun(await created)).toEqual(all(20));
    const ended = end(store, some);
    await store.close();
    await pool.end();
    for (const one of begun(await ended)) if (one !== true) expect(one).toEqual(unavailable("not_sent"));
  });

  test("of a session that was left with another role succeed", async () => {
    await withStore(async (store, pool) => {
      await pool.query("drop role if exists no_rights; create role no_rights");
      await create(store, lives(20));
      await store.close();
      const client = await pool.connect();
      await client.query("set role no_rights");
      client.release();
      const some = lives(12);
      expect(begun(await create(store, some))).toEqual(all(12));
      expect(begun(await end(store, some))).toEqual(all(12));
    });
  });

  test("run through the whole of Latchkey: each request its own answer, once", async () => {
    await withStore(async (store) => {
      const latchkey = createLatchkey({ store });
      const send = latchkey.operation("orders.send", { execution: "lease" });
      const runs: string[] = [];
      const calls = Array.from({ length: 60 }, async (_, n) => {
        const key = newKey({ tenant: `tenant-${n % 7}`, key: `order ${version} ${n % 50}` });
        const result = await latchkey.run(
          send,
          { tenant: key.tenant, key: key.key, input: { n: n % 50, tenant: key.tenant } },
          async () => {
            runs.push(`${key.tenant} ${key.key}`);
            return { of: `${key.tenant} ${key.key}` };
          },
        );
        if (result.kind === "executed" || result.kind === "replay") {
          expect(result.value).toEqual({ of: `${key.tenant} ${key.key}` });
        }
        return result.kind;
      });
      const kinds = await Promise.all(calls);
      expect(new Set(runs).size).toBe(runs.length);
      expect(kinds.filter((kind) => kind === "executed")).toHaveLength(runs.length);
    });
  });

  test("are planned to find their rows by key also while the tables are empty", async () => {
    const own = openPool(await migratedDatabase(version), { max: 3 });
    const store = postgresStore({ pool: own });
    const some = lives(30);
    await create(store, some);
    await Promise.all(some.map((life) => store.renew(life, life.id, life.fence, 90_000)));
    await end(store, some);
    await store.close();
    const client = await own.connect();
    const names = new Map<string, string>();
    const others = [client, await own.connect(), await own.connect()];
    for (const one of others) {
      const { rows } = await one.query(
        "select name, statement from pg_prepared_statements where name like '%many%'",
      );
      for (const { name, statement } of rows) names.set(name, statement);
    }
    expect([...names.keys()].filter((name) => !name.startsWith("lk_read"))).toHaveLength(3);
    const empty = openPool(await migratedDatabase(version), { max: 1 });
    await empty.query("set plan_cache_mode = force_generic_plan");
    for (const [name, statement] of names) {
      await empty.query(`prepare "${name}" as ${statement}`);
      const { rows } = await empty.query<{ "QUERY PLAN": string }>(`explain execute "${name}"('[]')`);
      const scans = rows.map((row) => row["QUERY PLAN"]).filter((line) => line.includes("Seq Scan"));
      expect(scans, name).toEqual([]);
    }
    for (const one of others) one.release();
    await Promise.all([own.end(), empty.end()]);
  });
});
