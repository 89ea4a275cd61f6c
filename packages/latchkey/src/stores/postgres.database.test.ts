/** The Postgres store on databases as they are: hostile schemas, roles, settings, triggers, sessions that somebody left open. */
import type pg from "pg";
import { describe, expect, test } from "vitest";
import {
  answer,
  commitOf,
  newKey,
  newLife,
  request,
  retention,
  supportOf,
  terms,
  writing,
} from "../../../../test/postgres/arrange.ts";
import {
  committedRows,
  expectNoLeak,
  migratedDatabase,
  openPool,
  type TestTx,
} from "../../../../test/postgres/harness.ts";
import { onlyShortCheck } from "../../../../test/support/whole-shapes.ts";
import { createLatchkey } from "../latchkey.ts";
import type { EffectClaim } from "./outbox.ts";
import { sql } from "./postgres/sql/texts.ts";
import { migratePostgres, postgresStore } from "./postgres.ts";
import type { Store } from "./store.ts";

describe("on a database", () => {
  const setUp = async (options: pg.PoolConfig = {}) => {
    const url = await migratedDatabase();
    return { url, pool: openPool(url, { max: 4, ...options }) };
  };

  test("verify wants this version of the schema", async () => {
    const { pool } = await setUp();
    const invalid = { code: "schema-invalid" };
    const store = postgresStore({ pool });
    await store.verify();
    await pool.query("update latchkey.settings set value = '9' where name = 'schema_version'");
    await expect(store.verify()).rejects.toMatchObject(invalid);
    await pool.query("delete from latchkey.settings where name = 'schema_version'");
    await expect(store.verify()).rejects.toMatchObject(invalid);
    const elsewhere = postgresStore({ pool, schema: "elsewhere" });
    await expect(elsewhere.verify()).rejects.toMatchObject(invalid);
    await expect(elsewhere.read(newKey())).rejects.toMatchObject(invalid);
    await expect(elsewhere.create(newLife(newKey()), null, terms)).rejects.toMatchObject(invalid);
    await expect(writing(elsewhere, newLife(newKey()))).rejects.toMatchObject(invalid);
    await expectNoLeak(pool);
    await pool.end();
  });

  test("a schema that appears later is used without a restart", async () => {
    const { pool } = await setUp();
    const store = postgresStore({ pool, schema: "later" });
    await expect(writing(store, newLife(newKey()))).rejects.toMatchObject({ code: "schema-invalid" });
    await migratePostgres(pool, { schema: "later" });
    expect((await writing(store, newLife(newKey()))).kind).toBe("committed");
    await pool.end();
  });

  test("a table of the handler's that is missing is the handler's error", async () => {
    const { pool } = await setUp();
    const run = supportOf(postgresStore({ pool })).run(request(newKey()), async ({ tx }) => {
      await tx.query("select * from missing_table");
      return { end: "rollback", value: "" };
    });
    await expect(run).rejects.toMatchObject({ code: "42P01" });
    await pool.end();
  });

  test.each([
    ["a NUL", "a\0b"],
    ["a lone surrogate", "a\ud800"],
    ["two thousand bytes", "k".repeat(2_000)],
  ])("a key with %s is refused before anything runs", async (_what, text) => {
    const { pool } = await setUp();
    const store = postgresStore({ pool });
    for (const key of [newKey({ tenant: text }), newKey({ scope: text }), newKey({ key: text })]) {
      await expect(store.read(key)).rejects.toThrow(TypeError);
      await expect(store.create(newLife(key), null, terms)).rejects.toThrow(TypeError);
      let ran = false;
      const run = supportOf(store).run(request(key), async () => {
        ran = true;
        return { end: "rollback", value: "" };
      });
      await expect(run).rejects.toThrow(TypeError);
      expect(ran).toBe(false);
    }
    await expectNoLeak(pool);
    await pool.end();
  });

  test("the longest key that is taken can be stored, whatever its bytes", async () => {
    const { pool } = await setUp();
    const random = Array.from({ length: 1_900 }, (_, index) =>
      String.fromCharCode(33 + ((index * 7919) % 94)),
    );
    const life = newLife(newKey({ key: random.join("") }));
    expect((await writing(postgresStore({ pool }), life)).kind).toBe("committed");
    await pool.end();
  });

  test("functions of a hostile schema, first in the search path, are not called", async () => {
    const { pool, url } = await setUp();
    await pool.query(`
      create schema evil;
      create table evil.records (key text);
      create function evil.clock_timestamp() returns timestamptz language sql as $$ select 'epoch'::timestamptz $$;
      create function evil.now() returns timestamptz language sql as $$ select 'epoch'::timestamptz $$;
      create function evil.sqrt(bigint) returns float8 language sql as $$ select 1.0::float8 $$;
      create function evil.count(bigint) returns bigint language sql as $$ select 1::bigint $$;
      create function evil.pg_try_advisory_xact_lock(bigint) returns bool language sql as 'select true';
      create function evil.set_config(text, text, boolean) returns text language sql as $$ select 'x' $$;
      create function evil.encode(bytea, text) returns text language sql as $$ select 'x' $$;
      create function evil.floor(numeric) returns numeric language sql as 'select 0::numeric'`);
    const hostile = openPool(url, { max: 4, options: "-c search_path=evil,pg_catalog,public" });
    const store = postgresStore({ pool: hostile });
    const life = newLife(newKey());
    expect((await writing(store, life)).kind).toBe("committed");
    const { record, now } = await store.read(life);
    expect(record).toMatchObject({ id: life.id, fingerprint: life.fingerprint });
    expect(now).toBeGreaterThan(1_700_000_000_000);
    expect((await writing(store, newLife(life))).kind, "the guard still raises").toBe("lost");
    const leased = newLife(newKey());
    await store.create(leased, null, terms);
    const end = { event: "complete", answer, retention, errorCode: null } as const;
    expect(await store.end(leased, leased.id, leased.fence, end)).not.toBeNull();
    expect(await store.clean(10)).toEqual({
      abandoned: 0,
      purged: 0,
      forgotten: 0,
      effects: 0,
      messages: 0,
    });
    await hostile.end();
    await pool.end();
  });

  test("a role that may only read and write rows is enough", async () => {
    const { pool, url } = await setUp();
    const role = `app_${newKey().key.slice(-12)}`;
    await pool.query(`
      create role ${role} login;
      grant usage on schema latchkey to ${role};
      grant select, insert, update, delete on latchkey.records, latchkey.leases, latchkey.steps, latchkey.messages, latchkey.early,
        latchkey.outbox, latchkey.facts to ${role};
      grant select, insert on latchkey.audit to ${role};
      grant select on latchkey.settings to ${role};
      grant insert, select on business to ${role}`);
    const narrow = new URL(url);
    narrow.username = role;
    const app = openPool(narrow.href, { max: 4 });
    const store = postgresStore({ pool: app });
    await store.verify();
    const life = newLife(newKey());
    expect((await writing(store, life)).kind).toBe("committed");
    expect(await supportOf(store).resolve(life, life.id, life.fence, 5_000)).toBe("committed");
    const leased = newLife(newKey());
    await store.create(leased, null, terms);
    expect(await store.renew(leased, leased.id, leased.fence, 60_000)).toBe(true);
    expect(await store.endedLeases(10)).toEqual([]);
    expect(await store.clean(10)).toEqual({
      abandoned: 0,
      purged: 0,
      forgotten: 0,
      effects: 0,
      messages: 0,
    });
    await store.close();
    await app.end();
    await pool.query(`drop owned by ${role}; drop role ${role}`);
    await pool.end();
  });

  test.each([
    ["synced", "on"],
    ["may-lose-acknowledged", "off"],
  ] as const)(
    "with durability %s, synchronous_commit is %s at COMMIT where the session has it off",
    async (durability, at) => {
      const { pool, url } = await setUp();
      await pool.query(`
      create table seen (value text);
      create function see() returns trigger language plpgsql as
        $$ begin insert into seen values (current_setting('synchronous_commit')); return null; end $$;
      create constraint trigger see after insert or update on latchkey.records
        deferrable initially deferred for each row execute function see()`);
      const lax = openPool(url, { max: 4, options: "-c synchronous_commit=off" });
      const store = postgresStore({ pool: lax, durability });
      await writing(store, newLife(newKey()));
      const leased = newLife(newKey());
      await store.create(leased, null, terms);
      await store.end(leased, leased.id, leased.fence, {
        event: "complete",
        answer,
        retention,
        errorCode: null,
      });
      const { rows } = await pool.query<{ value: string }>("select value from seen");
      expect(rows.map(({ value }) => value)).toEqual([at, at, at]);
      const { rows: after } = await lax.query<{ synchronous_commit: string }>("show synchronous_commit");
      expect(after[0]?.synchronous_commit, "only for the transaction").toBe("off");
      await lax.end();
      await pool.end();
    },
  );

  test("limits in a transaction are the lower of Latchkey's and the user's", async () => {
    const { pool, url } = await setUp();
    const settingsAt = async (options: string) => {
      const own = openPool(url, { max: 2, options });
      const outcome = await supportOf(postgresStore({ pool: own })).run(
        request(newKey(), { idleLimitMs: 30_000 }),
        async ({ tx }) => {
          const { rows } = await tx.query<{ idle: string; statement: string }>(
            `select current_setting('idle_in_transaction_session_timeout') as idle,
               current_setting('statement_timeout') as statement`,
          );
          return { end: "rollback", value: rows[0] };
        },
      );
      const { rows } = await own.query<{ statement: string }>(
        "select current_setting('statement_timeout') as statement",
      );
      await own.end();
      return { inside: outcome.value, outside: rows[0]?.statement };
    };
    expect(await settingsAt("-c statement_timeout=0")).toEqual({
      inside: { idle: "30s", statement: "30s" },
      outside: "0",
    });
    expect((await settingsAt("-c statement_timeout=2min")).inside).toMatchObject({ statement: "30s" });
    expect((await settingsAt("-c statement_timeout=5s")).inside).toMatchObject({ statement: "5s" });
    expect((await settingsAt("-c idle_in_transaction_session_timeout=5s")).inside).toEqual({
      idle: "5s",
      statement: "30s",
    });
    await pool.end();
  });

  /** Each opens a transaction through the store, and passes on what the handler's queries would. */
  const kinds: Record<
    string,
    (store: Store<TestTx>, handle: (tx: TestTx) => Promise<void>) => Promise<unknown>
  > = {
    transaction: (store, handle) =>
      supportOf(store).run(request(newKey()), async ({ tx }) => {
        await handle(tx);
        return { end: "rollback", value: null };
      }),
    optimistic: (store, handle) => {
      const latchkey = createLatchkey({ store });
      const operation = latchkey.operation("optimistic", {
        admission: "optimistic",
        transactionLimitMs: 30_000,
      });
      const call = { tenant: "t", key: newKey().key, input: null };
      return latchkey.run(operation, call, async ({ tx }) => handle(tx));
    },
    phase: (store, handle) => {
      const { id, fence, ...key } = newLife(newKey());
      const owner = { key, id, fence };
      return supportOf(store).phase({ owner, isolation: null, idleLimitMs: 30_000 }, async ({ tx }) => {
        await handle(tx);
        return { end: "rollback", value: null };
      });
    },
    delivery: (store, handle) =>
      supportOf(store).deliver(
        { claim: {} as EffectClaim, tenant: "t", idleLimitMs: 30_000, keepMs: 1 },
        async ({ tx }) => {
          await handle(tx);
          return { end: "rollback", value: null };
        },
      ),
    batch: async (store, handle) =>
      supportOf(store).runBatch?.(
        { keys: [newKey()], isolation: null, idleLimitMs: 30_000 },
        async (open) => {
          const part = open.part();
          await handle(part.tx);
          part.revoke();
          return { end: "rollback", value: null };
        },
      ),
  };

  test.each(Object.keys(kinds))(
    "%s: a lower limit of the user's own stays, also when a later session is the first to have one",
    async (kind) => {
      const { pool } = await setUp({ max: 2 });
      const store = postgresStore({ pool });
      const seen: string[] = [];
      for (const limit of ["0", "1d", "90min", "5s", "2min", "0", "1500ms"]) {
        // One request at a time always gets the same connection.
        await pool.query(`set statement_timeout = '${limit}'`);
        let inside = "";
        await kinds[kind]?.(store, async (tx) => {
          const { rows } = await tx.query<{ limit: string }>("select current_setting($1) as limit", [
            "statement_timeout",
          ]);
          inside = rows[0]?.limit ?? "";
        });
        seen.push(inside);
      }
      expect(seen).toEqual(["30s", "30s", "30s", "5s", "30s", "30s", "1500ms"]);
      const prepared =
        "select count(*)::int as forms from pg_prepared_statements where name like 'lk\\_open%'";
      const { rows } = await pool.query<{ forms: number }>(prepared);
      expect(rows[0]?.forms, "one that compares limits, and one that does not").toBe(2);
      await expectNoLeak(pool);
      await pool.end();
    },
  );

  test("a limit that appears between the two look-ups of a key in progress stays, too", async () => {
    const { pool, url } = await setUp();
    const elsewhere = openPool(url, { max: 2 });
    const other = postgresStore({ pool: elsewhere });
    const key = newKey();
    await other.create(newLife(key), null, terms);
    const store = postgresStore({ pool });
    await writing(store, newLife(newKey()));
    let acquired = 0;
    pool.on("acquire", (client) => {
      acquired += 1;
      if (acquired === 2) client.query("set statement_timeout = '5s'").catch(() => {});
    });
    const outcome = await supportOf(store).run(request(key), async ({ reading, tx }) => {
      const { rows } = await tx.query<{ limit: string }>(
        "select current_setting('statement_timeout') as limit",
      );
      return { end: "rollback", value: [reading.record?.state, rows[0]?.limit] };
    });
    expect(outcome).toEqual({ kind: "rolled_back", value: ["in_progress", "5s"] });
    expect(acquired, "without and with the lease, and both again under the limit").toBe(4);
    await other.close();
    await elsewhere.end();
    await pool.end();
  });

  test.each([
    [
      "an operator",
      `create function evil.stay(timestamptz, interval) returns timestamptz language sql as 'select $1';
       create operator evil.+ (leftarg = timestamptz, rightarg = interval, function = evil.stay)`,
    ],
    ["a type", "create domain evil.interval as text"],
  ])("%s of intervals ahead of pg_catalog is refused by name", async (_, make) => {
    const { pool } = await setUp({ max: 2, options: "-c search_path=evil,pg_catalog" });
    await pool.query(`create schema evil; ${make}`);
    await expect(writing(postgresStore({ pool }), newLife(newKey()))).rejects.toMatchObject({
      code: "store-unsuitable",
      message: expect.stringContaining("evil before pg_catalog"),
    });
    await pool.end();
  });

  test("a name that contains the separator of the settings is refused by name", async () => {
    const { pool } = await setUp({ max: 2 });
    await pool.query('set search_path to "a\u001fb"');
    await expect(writing(postgresStore({ pool }), newLife(newKey()))).rejects.toMatchObject({
      code: "store-unsuitable",
      message: expect.stringContaining("U+001F"),
    });
    await expectNoLeak(pool);
    await pool.end();
  });

  test("a user's deferred trigger that raises our guard's SQLSTATE at COMMIT is not taken for the guard", async () => {
    const { pool } = await setUp();
    await pool.query(`
      create table code (state text);
      create function fail() returns trigger language plpgsql as
        $$ begin raise exception 'no' using errcode = (select state from code); end $$;
      create constraint trigger fail after insert on business deferrable initially deferred
        for each row execute function fail()`);
    const store = postgresStore({ pool });
    for (const state of ["22012", "2201F", "3B001"]) {
      await pool.query("delete from code");
      await pool.query("insert into code values ($1)", [state]);
      const outcome = await writing(store, newLife(newKey()));
      expect(outcome).toMatchObject({ kind: "refused", because: "other", error: { code: state } });
    }
    await pool.end();
  });

  test("a duplicate row of the user's is not taken for a record that appeared", async () => {
    const { pool } = await setUp();
    await pool.query(`
      create table records (row text constraint records_pkey primary key deferrable initially deferred);
      create table audited (tenant text primary key);
      create function audit() returns trigger language plpgsql as
        $$ begin insert into audited values (new.tenant); return null; end $$`);
    const store = postgresStore({ pool });
    const atCommit = await writing(store, newLife(newKey()), ({ tx }) =>
      tx.query("insert into records values ('twice'), ('twice')"),
    );
    expect(atCommit).toMatchObject({ kind: "refused", because: "other", error: { code: "23505" } });
    await pool.query(`
      create trigger audit after insert on latchkey.records for each row execute function audit()`);
    expect((await writing(store, newLife(newKey()))).kind).toBe("committed");
    const closing = await writing(store, newLife(newKey()));
    expect(closing).toMatchObject({ kind: "refused", because: "other", error: { cause: { code: "23505" } } });
    await pool.end();
  });

  test("a warning at COMMIT leaves it in doubt, also where the session hides warnings", async () => {
    const { pool, url } = await setUp();
    await pool.query(`
      create function warn() returns trigger language plpgsql as
        $$ begin raise warning 'as of a cancelled wait'; return null; end $$;
      create constraint trigger warn after insert on business deferrable initially deferred
        for each row execute function warn()`);
    for (const level of ["error", "log", "notice", "warning"]) {
      const quiet = openPool(url, { max: 4, options: `-c client_min_messages=${level}` });
      const outcome = await writing(postgresStore({ pool: quiet }), newLife(newKey()));
      expect(outcome.kind, level).toBe("in_doubt");
      const { rows } = await quiet.query<{ client_min_messages: string }>("show client_min_messages");
      expect(rows[0]?.client_min_messages, "only for the transaction").toBe(level);
      await quiet.end();
    }
    await pool.end();
  });

  test("no setting of a session changes what is read, or stops a transaction", async () => {
    const { pool, url } = await setUp();
    const settings = {
      extra_float_digits: "-15",
      bytea_output: "escape",
      DateStyle: "SQL,DMY",
      TimeZone: "Asia/Kathmandu",
      IntervalStyle: "sql_standard",
      standard_conforming_strings: "off",
      statement_timeout: "90min",
    };
    const options = Object.entries(settings).map(([name, value]) => `-c ${name}=${value}`);
    const odd = openPool(url, { max: 4, options: options.join(" ") });
    const [store, plain] = [postgresStore({ pool: odd }), postgresStore({ pool })];
    const life = newLife(newKey());
    const began = (await plain.read(life)).now;
    const outcome = await writing(store, life);
    const { record, now } = await store.read(life);
    expect(record).toEqual((await plain.read(life)).record);
    expect(record).toMatchObject({ state: "completed", fence: life.fence, answer });
    const { finishedAt, expiresAt } =
      record?.state === "completed" ? record : { finishedAt: 0, expiresAt: 0 };
    expect(outcome).toMatchObject({ kind: "committed", expiresAt });
    expect(expiresAt).toBe(finishedAt + retention.retentionMs);
    expect([began <= finishedAt, finishedAt <= now + 1, now - began < 60_000]).toEqual([true, true, true]);
    await odd.end();
    await pool.end();
  });

  test("times are given in whole milliseconds, rounded down, whenever they are", async () => {
    const { pool } = await setUp();
    await pool.query(`
      create table clock (at timestamptz);
      create function my_clock() returns timestamptz language sql volatile as 'select at from public.clock'`);
    const store = postgresStore({ pool, timeFunction: "public.my_clock()" });
    for (const [at, ms] of [
      ["2026-11-21 07:00:00.123999+00", Date.UTC(2026, 10, 21, 7, 0, 0, 123)],
      ["2026-11-21 07:00:00.123001+00", Date.UTC(2026, 10, 21, 7, 0, 0, 123)],
      ["2026-11-21 07:00:00.123000+00", Date.UTC(2026, 10, 21, 7, 0, 0, 123)],
      ["2026-11-21 07:00:00.122999+00", Date.UTC(2026, 10, 21, 7, 0, 0, 122)],
      ["1999-12-31 23:59:59.999999+00", Date.UTC(1999, 11, 31, 23, 59, 59, 999)],
      ["2171-01-01 00:00:00.000001+00", Date.UTC(2171, 0, 1)],
    ] as const) {
      await pool.query("truncate clock");
      await pool.query("insert into clock values ($1)", [at]);
      expect((await store.read(newKey())).now, at).toBe(ms);
    }
    await pool.end();
  });

  test("undoing a handler's writes after it lost our savepoint is a transaction that changed", async () => {
    const { pool } = await setUp();
    const store = postgresStore({ pool });
    const life = newLife(newKey());
    const outcome = await supportOf(store).run(request(life, { savepoint: true }), async ({ tx }) => {
      await tx.query("release savepoint latchkey_handler");
      return commitOf(life, null, { undoWrites: true });
    });
    expect(outcome.kind).toBe("changed");
    expect((await store.read(life)).record).toBeNull();
    await pool.end();
  });

  test("an error swallowed by the handler can still be answered, when its writes are undone", async () => {
    const { pool } = await setUp();
    const store = postgresStore({ pool });
    const life = newLife(newKey());
    const run = (undoWrites: boolean) =>
      supportOf(store).run(request(life, { savepoint: true }), async ({ tx }) => {
        await tx.query("insert into business values ('undone')");
        await tx.query("select 1 / 0").catch(() => {});
        return commitOf(life, null, { undoWrites });
      });
    expect(await run(false)).toMatchObject({ kind: "refused", because: "aborted" });
    expect((await run(true)).kind).toBe("committed");
    expect(await committedRows(pool)).toEqual([]);
    await pool.end();
  });

  test("an error swallowed after statements under names can be answered, too", async () => {
    const { pool } = await setUp();
    const store = postgresStore({ pool });
    const run = (act: (tx: TestTx) => Promise<unknown>, undoWrites: boolean) => {
      const life = newLife(newKey());
      return supportOf(store).run(request(life, { savepoint: true }), async ({ tx }) => {
        await tx.query("insert into business values ($1)", ["undone"]);
        await act(tx);
        return commitOf(life, null, { undoWrites });
      });
    };
    for (let count = 0; count < 6; count++) await run(async () => {}, true);
    const fail = (tx: TestTx) => tx.query("select 1 / 0").catch(() => {});
    expect(await run(fail, false)).toMatchObject({ kind: "refused", because: "aborted" });
    expect((await run(fail, true)).kind).toBe("committed");
    expect(await committedRows(pool)).toEqual([]);
    await pool.end();
  });

  test("a conflict of autocommit writes under a SERIALIZABLE default is tried again", async () => {
    const { url, pool } = await setUp();
    const strict = openPool(url, { max: 8, options: "-c default_transaction_isolation=serializable" });
    const store = postgresStore({ pool: strict });
    const lives = Array.from({ length: 24 }, () => newLife(newKey()));
    const created = await Promise.all(lives.map((life) => store.create(life, null, terms)));
    expect(created.every((record) => record !== null)).toBe(true);
    await store.close();
    await strict.end();
    await pool.end();
  });

  test("an autocommit write never hides in a transaction that somebody left open", async () => {
    const { pool } = await setUp();
    const store = postgresStore({ pool });
    const leaked = await pool.connect();
    await leaked.query("begin");
    leaked.release();
    const life = newLife(newKey());
    expect(await store.recordLostTransaction(life, null, "x")).not.toBeNull();
    expect((await store.read(life)).record?.state).toBe("unknown");
    const { rows } = await pool.query(
      "select 1 from pg_stat_activity where state like 'idle in transaction%' and datname = current_database()",
    );
    expect(rows).toEqual([]);
    await pool.end();
  });

  const columns = ["answer", "finished_at", "expires_at", "forget_at", "reconcile_after", "input"] as const;

  /** For each state which of the six columns have a value: t always, f never, _ as it comes; and which the table's check wants. */
  const shapes = {
    pending: ["fftff_", "___f__"],
    in_progress: ["fftff_", "___f__"],
    completed: ["ttttff", "t__t__"],
    failed: ["_tttff", "___t__"],
    retryable: ["ffff__", "___f__"],
    unknown: ["ffff__", "___f__"],
    expired: ["ft_tff", "f__t__"],
    "in-progress": ["", ""],
    done: ["", ""],
    "": ["", ""],
  } as const;

  const fits = (text: string, shape: string) =>
    shape !== "" && new RegExp(`^${shape.replaceAll("_", ".")}$`).test(text);

  test.each(Object.entries(shapes))(
    "of a record that is %j, columns that do not fit are refused by the table or found by doctor: %j",
    async (state, [shape, check]) => {
      const { pool } = await setUp();
      await pool.query(onlyShortCheck);
      const client = await pool.connect();
      const bytes = "'\\x00'";
      const filled = [bytes, ...Array.from({ length: 4 }, () => "now()"), bytes];
      const found: Record<string, string> = {};
      const wanted: Record<string, string> = {};
      for (let bits = 0; bits < 2 ** columns.length; bits++) {
        const has = columns.map((_, index) => (bits & (1 << index)) !== 0);
        const values = has.map((present, index) => (present ? filled[index] : "null"));
        const text = has.map((present) => (present ? "t" : "f")).join("");
        wanted[text] = fits(text, shape) ? "fits" : fits(text, check) ? "found" : "refused";
        const insert = `insert into latchkey.records (tenant, scope, key, id, operation, state, fingerprint_version,
          fingerprint, attempt, token, created_at, ${columns.join(", ")})
        values ('t', 's', $1, gen_random_uuid(), 'o', $2, 1, '\\x00', 1, gen_random_uuid(), now(), ${values.join(", ")})`;
        await client.query("begin");
        try {
          await client.query(insert, [text, state]);
          const { rows } = await client.query(sql.examineShapes);
          expect(rows[0]?.looked_at).toBe(1);
          found[text] = rows[0]?.wrong === 0 ? "fits" : "found";
        } catch (error) {
          expect(error).toMatchObject({ code: "23514", constraint: "records_state" });
          found[text] = "refused";
        }
        await client.query("rollback");
      }
      expect(found).toEqual(wanted);
      client.release();
      await pool.end();
    },
  );

  test.each([
    ["state = 'finished'", "refused"],
    ["answer = null", "refused"],
    ["state = 'in_progress'", "refused"],
    ["state = 'retryable'", "refused"],
    ["forget_at = null", "refused"],
    ["state = 'expired'", "refused"],
    ["forget_at = expires_at - interval '1 second'", "found"],
    ["reconcile_after = now()", "found"],
    ["input = '\\x00'", "found"],
    ["finished_at = null", "found"],
    ["expires_at = null", "found"],
    ["attempt = -1", "found"],
    ["reconcile_tries = 2", "fits"],
  ])("a completed record with %s: %s", async (change, verdict) => {
    const { pool } = await setUp();
    const update = `update latchkey.records set ${change}`;
    const store = postgresStore({ pool });
    await writing(store, newLife(newKey()));
    const whole = pool.query(update);
    if (verdict === "fits") await whole;
    else await expect(whole, "no test could have written it").rejects.toMatchObject({ code: "23514" });
    await pool.query(onlyShortCheck);
    if (verdict === "refused") {
      await expect(pool.query(update)).rejects.toMatchObject({ constraint: "records_state" });
    } else {
      await pool.query(update);
      const { rows } = await pool.query(sql.examineShapes);
      expect(rows).toMatchObject([{ looked_at: 1, wrong: verdict === "found" ? 1 : 0 }]);
    }
    await store.close();
    await pool.end();
  });
});
