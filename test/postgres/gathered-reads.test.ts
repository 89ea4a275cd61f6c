/** Look-ups that are sent as one statement: each caller gets its own record, as it was after its call began. */
import { AsyncLocalStorage } from "node:async_hooks";
import fc from "fast-check";
import type pg from "pg";
import { beforeAll, describe, expect, test } from "vitest";
import { encryptionCodec } from "../../packages/latchkey/src/encryption.ts";
import type { LatchkeyRecord, RecordKey } from "../../packages/latchkey/src/engine/record.ts";
import { LatchkeyError, StoreError } from "../../packages/latchkey/src/errors.ts";
import { createBreaker, guardedStore } from "../../packages/latchkey/src/execution/guards/guarded-store.ts";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import { systemPorts } from "../../packages/latchkey/src/ports.ts";
import { PipelineTimeout } from "../../packages/latchkey/src/sql/pg/pipeline.ts";
import type { SqlRow, SqlStatement } from "../../packages/latchkey/src/sql/transaction.ts";
import {
  GatheredReads,
  hangsAfterMs,
} from "../../packages/latchkey/src/stores/postgres/gathering/gathered-reads.ts";
import { patienceMs } from "../../packages/latchkey/src/stores/postgres/gathering/gathering.ts";
import { readingOf } from "../../packages/latchkey/src/stores/postgres/statements/rows.ts";
import { template } from "../../packages/latchkey/src/stores/postgres/statements/template.ts";
import { keyValues } from "../../packages/latchkey/src/stores/postgres/statements/values.ts";
import { type PostgresStore, postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { patient } from "../support/patience.ts";
import { forEachPostgres } from "../support/shared-postgres.ts";
import { startProxy } from "../support/tcp-proxy.ts";
import { until } from "../support/until.ts";
import { answer, newKey, newLife, retention, terms, writing } from "./arrange.ts";
import { endlessMs, migratedDatabase, openPool, patientClock, type TestTx } from "./harness.ts";

const statements = {
  read: template("read", "select :'tenant', :'scope', :'key'"),
  readMany: template("read_many", "select :'keys'"),
};

interface SentStatement {
  readonly statement: SqlStatement;
  readonly isMany: boolean;
  readonly keys: readonly RecordKey[];
  readonly context: unknown;
  answer(rows: readonly SqlRow[]): void;
  fail(error: unknown): void;
}

/** An executor whose statements the test answers, and a clock whose timers it ends. */
function setUp(context: () => unknown = () => null, hasSpare = true) {
  const sent: SentStatement[] = [];
  const timers = new Map<() => void, number>();
  const timerContexts: unknown[] = [];
  let broken: Error | null = null;
  const reads = new GatheredReads({
    executor: {
      hasSpare,
      read(statement) {
        const reply = Promise.withResolvers<readonly SqlRow[]>();
        const isMany = statement.name === statements.readMany.name;
        const [tenant = "", scope = "", key = ""] = statement.values as string[];
        const keys = isMany ? (JSON.parse(tenant) as RecordKey[]) : [{ tenant, scope, key }];
        sent.push({ statement, isMany, keys, context: context(), answer: reply.resolve, fail: reply.reject });
        return reply.promise;
      },
    },
    readMany: statements.readMany,
    clock: {
      startTimer(delayMs, task) {
        if (broken !== null) throw broken;
        timerContexts.push(context());
        timers.set(task, delayMs);
        return () => timers.delete(task);
      },
    },
  });
  const read = (name: string) => {
    const key = { tenant: "t", scope: "s", key: name };
    return reads.read(key, statements.read.bind(keyValues(key)));
  };
  const fire = (ofMs: number) => {
    const due = [...timers].filter(([, delayMs]) => delayMs === ofMs);
    for (const [task] of due) timers.delete(task);
    for (const [task] of due) task();
  };
  const losePatience = () => fire(patienceMs);
  const hang = () => fire(hangsAfterMs);
  const breakClock = (error: Error) => {
    broken = error;
    return () => {
      broken = null;
    };
  };
  return { sent, read, losePatience, hang, timers, timerContexts, breakClock };
}

const rowsOf = ({ keys }: SentStatement) =>
  keys.map(({ tenant, scope, key }, place) => ({ place, tenant, scope, key, large: false, record: key }));
const recordOf = async (rows: Promise<readonly SqlRow[]>) => (await rows)[0]?.record;
const settled = () => new Promise((resolve) => setImmediate(resolve));
const namesOf = (sent: readonly SentStatement[]) => sent.map(({ keys }) => keys.map(({ key }) => key).join());

/** As many statements as may be under way. */
const singles = ["1", "2", "3", "4"];
const eachInATurn = async (names: readonly string[], read: (name: string) => unknown) => {
  for (const name of names) {
    void read(name);
    await settled();
  }
};

describe("the asynchronous context", () => {
  test("of a batch is that of its first caller, not of a caller who has been answered", async () => {
    const request = new AsyncLocalStorage<string>();
    const { sent, read } = setUp(() => request.getStore());
    const readIn = (name: string) => request.run(`request ${name}`, () => read(name));
    await eachInATurn(singles, readIn);
    for (const name of ["a", "b"]) void readIn(name);
    sent[0]?.answer([{ record: "1" }]);
    await settled();
    expect(namesOf(sent.slice(4))).toEqual(["a,b"]);
    expect(sent.map(({ context }) => context)).toEqual([...singles, "a"].map((name) => `request ${name}`));
  });

  test("of a batch of one turn is that of its first caller", async () => {
    const request = new AsyncLocalStorage<string>();
    const { sent, read } = setUp(() => request.getStore());
    for (const name of ["a", "b"]) void request.run(`request ${name}`, () => read(name));
    await settled();
    expect(namesOf(sent)).toEqual(["a,b"]);
    expect(sent[0]?.context).toBe("request a");
  });

  test("of the first caller does not live as long as the load", async () => {
    const request = new AsyncLocalStorage<string>();
    const { sent, read, timerContexts } = setUp(() => request.getStore());
    await eachInATurn(singles, (name) => request.run(`request ${name}`, () => read(name)));
    for (let count = 0; count < 100; count++) {
      void request.run(`request ${100 + count}`, () => read(`${100 + count}`));
      const one = sent[count];
      one?.answer(rowsOf(one));
      await settled();
    }
    expect(namesOf(sent.slice(103))).toEqual(["199"]);
    expect(sent[103]?.context).toBe("request 199");
    expect(singles.map((name) => `request ${name}`)).not.toContain(timerContexts.at(-1));
  });
});

describe("what is sent when", () => {
  test("the look-ups of one turn of the event loop, as one statement, whatever is under way", async () => {
    const { sent, read, timers } = setUp();
    for (const turn of [["a"], ["b", "c"], ["d", "e", "f"]]) {
      for (const name of turn) void read(name);
      await settled();
    }
    expect(namesOf(sent)).toEqual(["a", "b,c", "d,e,f"]);
    expect(sent.map(({ isMany }) => isMany)).toEqual([false, true, true]);
    // Those of batches that hang.
    expect([...timers.values()]).toEqual([hangsAfterMs, hangsAfterMs]);
  });

  test("four statements at once; the next look-ups wait for the first reply and are one statement", async () => {
    const { sent, read, timers } = setUp();
    const names = [...singles, "a", "b", "c"];
    const all: Promise<readonly SqlRow[]>[] = [];
    await eachInATurn(names, (name) => all.push(read(name)));
    expect(namesOf(sent)).toEqual(singles);
    expect([...timers.values()]).toEqual([patienceMs]);
    sent[1]?.answer([{ record: "2" }]);
    await settled();
    expect(namesOf(sent)).toEqual([...singles, "a,b,c"]);
    for (const place of [0, 2, 3]) sent[place]?.answer([{ record: singles[place] ?? null }]);
    sent[4]?.answer(rowsOf(sent[4]));
    expect(await Promise.all(all.map(recordOf))).toEqual(names);
    await settled();
    expect(timers.size).toBe(0);
  });

  /** A batch of these, under way. */
  const batchOf = (...names: readonly string[]) => batchIn(setUp(), ...names);

  async function batchIn(arranged: ReturnType<typeof setUp>, ...names: readonly string[]) {
    const { sent, read } = arranged;
    await eachInATurn(singles, read);
    const all = names.map(read);
    await settled();
    sent[0]?.answer([{ record: "1" }]);
    await settled();
    const batch = sent[4];
    if (batch === undefined) throw new Error("The batch is sent");
    expect(namesOf(sent)).toEqual([...singles, names.join()]);
    return { ...arranged, all, batch };
  }

  test("a look-up never joins a statement that has been sent, even for the same key", async () => {
    const { sent, read, all, batch } = await batchOf("a", "b");
    const later = read("a");
    await settled();
    expect(sent).toHaveLength(5);
    batch.answer(rowsOf(batch).map((row) => ({ ...row, record: "old" })));
    await settled();
    sent[5]?.answer([{ record: "new" }]);
    expect([await recordOf(all[0] ?? later), await recordOf(later)]).toEqual(["old", "new"]);
  });

  test("callers of one key that wait together each get its row", async () => {
    const names = ["a", "b", "a", "a"];
    const { all, batch } = await batchOf(...names);
    batch.answer(rowsOf(batch));
    expect(await Promise.all(all.map(recordOf))).toEqual(names);
  });

  test("at most a hundred in a statement", async () => {
    const { sent, read } = setUp();
    for (let n = 0; n < 250; n++) void read(`${n}`);
    await settled();
    expect(sent.map(({ keys }) => keys.length)).toEqual([100, 100, 50]);
    void read("250");
    await settled();
    for (let n = 251; n < 500; n++) void read(`${n}`);
    for (let count = 0; count < 6; count++) {
      const one = sent[count];
      one?.answer(rowsOf(one));
      await settled();
    }
    expect(sent.slice(3).map(({ keys }) => keys.length)).toEqual([1, 100, 100, 49]);
  });

  test("statements that hang keep the others waiting only for a moment", async () => {
    const { sent, read, losePatience, timers } = setUp();
    await eachInATurn([...singles, "a", "b"], read);
    losePatience();
    expect(namesOf(sent)).toEqual([...singles, "a,b"]);
    for (const one of sent) one.answer(rowsOf(one));
    await settled();
    expect(timers.size).toBe(0);
    await eachInATurn([...singles, "c", "d"], read);
    expect(namesOf(sent.slice(5)), "each is counted down once").toEqual(singles);
  });

  test("as long as replies come, no more than four, however many wait", async () => {
    const { sent, read, losePatience, timers } = setUp();
    for (let n = 0; n < 900; n++) void read(`${n}`);
    await settled();
    for (let count = 0; count < 4; count++) {
      const [timer] = timers.keys();
      const one = sent[count];
      one?.answer(rowsOf(one));
      await settled();
      expect(sent).toHaveLength(5 + count);
      expect(timers.has(timer as () => void), "a reply renews the patience").toBe(false);
    }
    losePatience();
    expect(sent, "the oldest one keeps no others waiting").toHaveLength(9);
  });

  describe("a batch that hangs", () => {
    test("is sent once more, and the first reply counts", async () => {
      const { sent, all, batch, hang, timers } = await batchOf("a", "b");
      hang();
      expect(namesOf(sent.slice(5))).toEqual(["a,b"]);
      sent[5]?.answer(rowsOf(batch));
      expect(await Promise.all(all.map(recordOf))).toEqual(["a", "b"]);
      batch.fail(new StoreError("rolled_back", { cause: new PipelineTimeout("No answer") }));
      await settled();
      expect(sent).toHaveLength(6);
      expect(timers.size).toBe(0);
    });

    test("is not sent again where another one is, or without another connection", async () => {
      const { sent, read, batch, hang, losePatience } = await batchOf("a", "b");
      await eachInATurn(["c", "d"], read);
      losePatience();
      expect(namesOf(sent.slice(5))).toEqual(["c,d"]);
      hang();
      expect(namesOf(sent.slice(6))).toEqual(["a,b"]);
      sent[6]?.answer(rowsOf(batch));
      const alone = await batchIn(setUp(undefined, false), "a", "b");
      alone.hang();
      expect(alone.sent).toHaveLength(5);
    });

    test("fails when it does, whatever became of the other", async () => {
      const { sent, all, batch, hang } = await batchOf("a", "b");
      const results = Promise.allSettled(all);
      hang();
      sent[5]?.fail(new StoreError("not_sent", { overload: true }));
      await settled();
      const unanswered = new StoreError("rolled_back", { cause: new PipelineTimeout("No answer") });
      batch.fail(unanswered);
      const failed = { status: "rejected", reason: unanswered };
      expect(await results).toEqual([failed, failed]);
      expect(sent).toHaveLength(6);
    });
  });

  describe("a batch that fails", () => {
    const failing = async () => {
      const { sent, all, batch, losePatience } = await batchOf("a", "b");
      return { sent, batch, losePatience, results: Promise.allSettled(all.map(recordOf)) };
    };
    const refused = (code: string) =>
      new StoreError("rolled_back", { cause: Object.assign(new Error("refused"), { code }) });
    const lost = new StoreError("rolled_back", { cause: new Error("Connection terminated unexpectedly") });
    const expectAllToFail = async (arranged: Awaited<ReturnType<typeof failing>>, error: LatchkeyError) => {
      const failed = { status: "rejected", reason: error };
      expect(await arranged.results).toEqual([failed, failed]);
      expect(arranged.sent).toHaveLength(5);
    };

    test("because the server refuses it is read one by one, and only the poisoned look-up fails", async () => {
      const { sent, batch, results } = await failing();
      batch.fail(refused("XX001"));
      await settled();
      expect(namesOf(sent.slice(5))).toEqual(["a", "b"]);
      sent[5]?.fail(refused("XX001"));
      sent[6]?.answer([{ record: "b" }]);
      expect(await results).toMatchObject([{ status: "rejected" }, { status: "fulfilled", value: "b" }]);
    });

    test.each([
      ["because its connections were lost", lost, false],
      ["late, because its connections were lost,", lost, true],
      ["late, because the server refuses it,", refused("XX001"), true],
      ["because of the server's statement_timeout", refused("57014"), true],
      ["because of a length that is damaged", refused("53200"), false],
    ])("%s is read one by one", async (_what, error, isLate) => {
      const { sent, batch, results, losePatience } = await failing();
      if (isLate) losePatience();
      batch.fail(error);
      await settled();
      for (const single of sent.slice(5)) single.answer([{ record: single.keys[0]?.key ?? null }]);
      expect(await results).toMatchObject([{ value: "a" }, { value: "b" }]);
    });

    test.each([
      ["no connection", new StoreError("not_sent", {})],
      ["too many connections", new StoreError("not_sent", { cause: refused("53300") })],
      ["the server's lock_timeout", refused("55P03")],
      ["a missing privilege", refused("42501")],
      ["missing tables", new LatchkeyError("schema-invalid")],
      ["a full disk", refused("53100")],
    ])("because of %s fails all of its callers, and nothing is sent again", async (_what, error) => {
      const arranged = await failing();
      arranged.batch.fail(error);
      await expectAllToFail(arranged, error);
    });

    test("without a reply fails all of its callers, none of which waits twice", async () => {
      const arranged = await failing();
      const unanswered = new StoreError("rolled_back", { cause: new PipelineTimeout("No answer") });
      arranged.batch.fail(unanswered);
      await expectAllToFail(arranged, unanswered);
    });
  });

  test("look-ups that would have to wait while the clock starts no timer fail, and later ones are sent", async () => {
    const { sent, read, timers, breakClock, losePatience } = setUp();
    const noTimer = new Error("No timer");
    const repair = breakClock(noTimer);
    const errors: unknown[] = [];
    await eachInATurn(singles, read);
    for (const name of ["a", "b"]) read(name).catch((error: unknown) => errors.push(error));
    await settled();
    expect(errors).toEqual([noTimer, noTimer]);
    expect(namesOf(sent)).toEqual(singles);
    repair();
    await eachInATurn(["c"], read);
    expect([...timers.values()]).toEqual([patienceMs]);
    losePatience();
    expect(namesOf(sent.slice(4))).toEqual(["c"]);
  });

  test("the record of another key is never given", () => {
    const asked = { tenant: "t", scope: "s", key: "k" };
    const own = { record: { ...newLife(newKey(asked)) } as unknown as LatchkeyRecord, now: 0 };
    expect(readingOf(asked, own)).toBe(own);
    expect(readingOf(asked, { ...own, record: null }).record).toBe(null);
    for (const part of ["tenant", "scope", "key"]) {
      expect(() => readingOf({ ...asked, [part]: "other" }, own)).toThrow(StoreError);
    }
  });

  test("whatever rows come back, each caller gets a row of its own key", async () => {
    const row = fc.record({
      place: fc.nat(4),
      tenant: fc.constantFrom("t", "u"),
      scope: fc.constantFrom("s", "r"),
      key: fc.constantFrom("a", "b", "c", "d"),
      large: fc.boolean(),
    });
    const replies = fc.array(row, { maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(replies, async (rows) => {
        const { sent, all, batch } = await batchOf("a", "b", "c");
        batch.answer(rows.map((one) => ({ ...one, record: `${one.tenant}${one.scope}${one.key}` })));
        await settled();
        for (const single of sent.slice(5)) single.answer([{ record: `ts${single.keys[0]?.key}` }]);
        expect(await Promise.all(all.map(recordOf))).toEqual(["tsa", "tsb", "tsc"]);
      }),
    );
  });
});

forEachPostgres((version) => {
  let url = "";
  beforeAll(async () => {
    url = await migratedDatabase(version);
  });

  /** The statements that the pool's sessions have prepared. */
  async function preparedOn(pool: pg.Pool, max: number): Promise<string[]> {
    const clients = await Promise.all(Array.from({ length: max }, () => pool.connect()));
    const names: string[] = [];
    for (const client of clients) {
      const { rows } = await client.query<{ name: string }>("select name from pg_prepared_statements");
      names.push(...rows.map(({ name }) => name));
      client.release();
    }
    return names;
  }

  test("a key object that its caller uses again for the next look-up", async () => {
    const pool = openPool(url, { max: 4 });
    const store = postgresStore({ pool });
    const lives = Array.from({ length: 12 }, () => newLife(newKey()));
    for (const life of lives) await writing(store, life);
    const place = { ...newKey() };
    const found = lives.map(({ tenant, scope, key }) =>
      store.read(Object.assign(place, { tenant, scope, key })),
    );
    expect((await Promise.all(found)).map(({ record }) => record?.id)).toEqual(lives.map(({ id }) => id));
    await pool.end();
  });

  test("look-ups whose batch reaches statement_timeout are made one by one", async () => {
    const ownUrl = await migratedDatabase(version);
    const operator = openPool(ownUrl, { max: 2 });
    const lives = Array.from({ length: 54 }, () => newLife(newKey()));
    for (const life of lives) await writing(postgresStore({ pool: operator }), life);
    // Fifty of them take twice the limit, and one a twenty-fifth of it.
    const limitMs = Math.round(patient(500));
    await operator.query(`
      create function slow(text) returns boolean language sql volatile as
        $$ select true from pg_sleep(${limitMs / 25_000}) $$;
      alter table latchkey.records rename to records_intact;
      create view latchkey.records as select * from latchkey.records_intact where slow(key)`);
    const pool = openPool(ownUrl, { max: 4, options: `-c statement_timeout=${limitMs}` });
    // The look-ups wait for four connections, on a slow machine longer than the default.
    const store = postgresStore({ pool, connectTimeoutMs: 10 * limitMs });
    const results = await Promise.allSettled(lives.map((life) => store.read(life)));
    expect(results.filter(({ status }) => status === "rejected")).toEqual([]);
    await pool.end();
    await operator.end();
  });

  test("many look-ups at once return what single ones return, of every state, tenant and scope", async () => {
    const pool = openPool(url, { max: 4 });
    const store = postgresStore({ pool });
    const odd = `"'\\,${"\u{1F511}"}\u0001`;
    const keys = ["a", "a|b", odd].flatMap((tenant) =>
      ["c", "b|c"].flatMap((scope) => ["1", "b|c", odd].map((key) => newKey({ tenant, scope, key }))),
    );
    for (const [n, key] of keys.entries()) {
      const life = newLife(key);
      if (n % 3 === 0) await writing(store, life);
      if (n % 3 === 1) await store.create(life, null, terms);
      if (n % 9 === 4) {
        const end = {
          event: "complete",
          answer: Buffer.alloc(70_000, n),
          errorCode: null,
          retention,
        } as const;
        await store.end(life, life.id, life.fence, { ...end, answer: n === 4 ? end.answer : answer });
      }
    }
    const expected: (LatchkeyRecord | null)[] = [];
    for (const key of keys) expected.push((await store.read(key)).record);
    expect(expected.map((record) => record?.state)).toEqual(
      expect.arrayContaining(["completed", "in_progress", undefined]),
    );
    const many = Array.from({ length: 20 }, () => keys).flat();
    const found = await Promise.all(many.map((key) => store.read(key)));
    expect(found.map(({ record }) => record)).toEqual(many.map((_key, n) => expected[n % keys.length]));
    expect(found.every(({ now }) => Math.abs(now - systemPorts.clock.wallMs()) < 3_600_000)).toBe(true);
    // Otherwise heartbeats hold one of the pool's connections.
    await store.close();
    const names = await preparedOn(pool, 4);
    expect(names.filter((name) => name.startsWith("lk_read_many_"))).not.toEqual([]);
    await pool.end();
  });

  test("a look-up that begins after a write has been acknowledged finds it, among others", async () => {
    const pool = openPool(url, { max: 6 });
    const store = postgresStore({ pool });
    let busy = true;
    const others = Array.from({ length: 20 }, async () => {
      while (busy) await store.read(newKey());
    });
    for (let n = 0; n < 50; n++) {
      const life = newLife(newKey());
      const before = store.read(life);
      await writing(store, life);
      expect((await store.read(life)).record?.id).toBe(life.id);
      await before;
    }
    busy = false;
    await Promise.all(others);
    await pool.end();
  });

  /** Lives that are completed in the store. */
  async function completed(store: PostgresStore<TestTx>, count: number) {
    const lives = Array.from({ length: count }, () => newLife(newKey()));
    for (const life of lives) await writing(store, life);
    return lives;
  }

  const idsFound = async (store: PostgresStore<TestTx>, keys: readonly RecordKey[]) =>
    (await Promise.all(keys.map((key) => store.read(key)))).map(({ record }) => record?.id);
  const idsOf = (lives: readonly { readonly id: string }[]) => lives.map(({ id }) => id);

  test("look-ups on connections that hang keep no others waiting", async () => {
    const proxy = await startProxy({ to: { port: Number(new URL(url).port) } });
    const pool = openPool(proxy.url(url), { max: 6 });
    const { ports, giveUp } = patientClock();
    const store = postgresStore({ pool, ports, statementTimeoutMs: endlessMs });
    const lives = await completed(store, 10);
    await idsFound(store, lives);
    const isRead = (message: { readonly bytes: Buffer }) => message.bytes.includes("lk_read_");
    const others = lives.slice(singles.length);
    const reads: Promise<unknown>[] = [];
    for (const life of lives.slice(0, singles.length)) {
      const hold = proxy.holdWhen(isRead);
      reads.push(store.read(life));
      await hold.held();
    }
    const hung = Promise.allSettled(reads);
    expect(await idsFound(store, others)).toEqual(idsOf(others));
    giveUp();
    const reason = { code: "store-unavailable", certainty: "rolled_back" };
    expect(await hung).toMatchObject(singles.map(() => ({ status: "rejected", reason })));
    expect(await idsFound(store, lives)).toEqual(idsOf(lives));
    await pool.end();
    await proxy.close();
  });

  test("look-ups whose statement hangs are answered on another connection", async () => {
    const proxy = await startProxy({ to: { port: Number(new URL(url).port) } });
    const pool = openPool(proxy.url(url), { max: 6 });
    const { clock } = systemPorts;
    const startTimer: typeof clock.startTimer = (delayMs, ...rest) =>
      clock.startTimer(delayMs === hangsAfterMs ? 50 : delayMs, ...rest);
    const ports = { clock: { ...clock, startTimer } };
    const store = postgresStore({ pool, ports, statementTimeoutMs: Math.round(patient(5_000)) });
    const lives = await completed(store, 20);
    expect(await idsFound(store, lives)).toEqual(idsOf(lives));
    const hold = proxy.holdWhen((message) => message.bytes.includes("lk_read_many_"));
    const found = idsFound(store, lives);
    await hold.held();
    expect(await found).toEqual(idsOf(lives));
    hold.release();
    await pool.end();
    await proxy.close();
  });

  test("a dead network fails all look-ups, each statement counts as one failure of the store, and later ones succeed", async () => {
    const proxy = await startProxy({ to: { port: Number(new URL(url).port) } });
    const pool = openPool(proxy.url(url), { max: 8 });
    const inner = postgresStore({ pool, statementTimeoutMs: 500, connectTimeoutMs: 500 });
    const types: string[] = [];
    const circuit = { failureThreshold: 2, openMs: 60_000 };
    const breaker = createBreaker("postgres", circuit, systemPorts.clock, ({ type }) => types.push(type));
    const store = guardedStore(inner, breaker);
    const lives = await completed(inner, 3);
    const many = Array.from({ length: 30 }, (_, n) => lives[n % 3] as RecordKey);
    await Promise.all(many.map((key) => inner.read(key)));
    proxy.stall();
    const stalled = await Promise.allSettled(many.map((key) => store.read(key)));
    expect(new Set(stalled.map(({ status }) => status))).toEqual(new Set(["rejected"]));
    expect(types, "one statement with all look-ups").toEqual([]);
    await proxy.pass();
    await Promise.all(many.map((key) => store.read(key)));
    await proxy.cut();
    await until(() => pool.totalCount === 0, { what: "the pool has noticed" });
    const refused = await Promise.allSettled(many.map((key) => store.read(key)));
    expect(new Set(refused.map(({ status }) => status))).toEqual(new Set(["rejected"]));
    expect(types).toEqual([]);
    await Promise.allSettled(many.map((key) => store.read(key)));
    expect(types).toEqual(["circuit_opened"]);
    await pool.end();
    await proxy.close();
  });

  test("closing the store leaves no look-up waiting, and neither does ending the pool", async () => {
    const pool = openPool(url, { max: 3 });
    const store = postgresStore({ pool, connectTimeoutMs: 500 });
    const lives = await completed(store, 20);
    const found = idsFound(store, lives);
    await store.close();
    expect(await found).toEqual(idsOf(lives));
    const cut = Promise.allSettled(lives.map((life) => store.read(life)));
    await store.close();
    await pool.end();
    const results = await cut;
    expect(results).toHaveLength(lives.length);
    for (const [n, one] of results.entries()) {
      if (one.status === "fulfilled") expect(one.value.record?.id).toBe(lives[n]?.id);
      else expect(one.reason).toMatchObject({ code: "store-unavailable", certainty: "not_sent" });
    }
  });

  test.each([
    ["a session that was left with another role", "set role gathered_nobody", 1],
    ["sessions with a hostile search path", "set search_path = hostile, pg_catalog", 4],
  ])("%s: no look-up fails", async (_what, setting, sessions) => {
    const operator = openPool(url, { max: 1 });
    await operator.query(`create role gathered_nobody; create schema hostile;
      create function hostile.json_to_recordset(json) returns setof record language sql as 'select 1 where false';
      create function hostile.octet_length(bytea) returns int language sql as 'select null::int';
      create function hostile.encode(bytea, text) returns text language sql as 'select null::text'`);
    const pool = openPool(url, { max: 4 });
    const store = postgresStore({ pool });
    const lives = await completed(store, 20);
    const clients = await Promise.all(Array.from({ length: 4 }, () => pool.connect()));
    for (const client of clients.slice(-sessions)) await client.query(setting);
    // The pool gives out first what came back last.
    for (const client of clients) client.release();
    for (let time = 0; time < 3; time++) expect(await idsFound(store, lives)).toEqual(idsOf(lives));
    await pool.end();
    await operator.query("drop schema hostile cascade; drop role gathered_nobody");
    await operator.end();
  });

  test("a damaged row fails its own callers alone", async () => {
    const pool = openPool(url, { max: 4 });
    const store = postgresStore({ pool });
    const lives = await completed(store, 12);
    const [bad] = lives.slice(5);
    await pool.query(`create function poison(text) returns boolean language plpgsql as $$
      begin if $1 = '${bad?.key}' then raise exception 'damaged' using errcode = 'XX001'; end if; return true; end $$`);
    await pool.query("alter table latchkey.records rename to records_intact");
    await pool.query(
      "create view latchkey.records as select * from latchkey.records_intact where poison(key)",
    );
    const results = await Promise.allSettled(lives.map((life) => store.read(life)));
    await pool.query("drop view latchkey.records");
    await pool.query("alter table latchkey.records_intact rename to records");
    const failed = results.flatMap(({ status }, n) => (status === "rejected" ? [lives[n]?.key] : []));
    expect(failed).toEqual([bad?.key]);
    await pool.end();
  });

  test("encrypted answers reach the callers of their own keys, and nothing runs again", async () => {
    const pool = openPool(url, { max: 4 });
    const store = postgresStore({ pool });
    const codec = encryptionCodec({ keys: { one: new Uint8Array(32).fill(1) }, current: "one" });
    const latchkey = createLatchkey({ store, codec });
    const operation = latchkey.operation("gathered.encrypted", { writes: "none" });
    let runs = 0;
    const call = (tenant: string, key: string) =>
      latchkey.run(operation, { tenant, key, input: null }, async () => {
        runs += 1;
        return `${tenant} ${key}`;
      });
    const calls = ["t1", "t2"].flatMap((tenant) =>
      Array.from({ length: 10 }, (_, n) => [tenant, `k${n}`] as const),
    );
    for (const [tenant, key] of calls) await call(tenant, key);
    const many = [...calls, ...calls, ...calls];
    const results = await Promise.all(many.map(([tenant, key]) => call(tenant, key)));
    expect(results).toMatchObject(
      many.map(([tenant, key]) => ({ kind: "replay", value: `${tenant} ${key}` })),
    );
    expect(runs).toBe(calls.length);
    await store.close();
    expect((await preparedOn(pool, 4)).some((name) => name.startsWith("lk_read_many_"))).toBe(true);
    await pool.end();
  });

  test("connections that are terminated under way fail no look-up", async () => {
    const pool = openPool(url, { max: 4 });
    const store = postgresStore({ pool });
    const lives = Array.from({ length: 20 }, () => newLife(newKey()));
    for (const life of lives) await writing(store, life);
    const operator = openPool(url, { max: 1 });
    await Promise.all(lives.map((life) => store.read(life)));
    await operator.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'",
    );
    const found = await Promise.all(lives.map((life) => store.read(life)));
    expect(found.map(({ record }) => record?.id)).toEqual(lives.map(({ id }) => id));
    await Promise.all([pool.end(), operator.end()]);
  });
});
