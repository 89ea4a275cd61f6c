import { pipeline } from "node:stream/promises";
import type pg from "pg";
import postgres from "postgres";
import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from "vitest";
import { migratedDatabase, openPool } from "../../../../test/postgres/harness.ts";
import { patient } from "../../../../test/support/patience.ts";
import { onRelease } from "../../../../test/support/resources.ts";
import { forEachPostgres } from "../../../../test/support/shared-postgres.ts";
import { isThorough } from "../../../../test/support/thorough.ts";
import { until } from "../../../../test/support/until.ts";
import { transactionConformance } from "../../../latchkey-conformance/src/transaction-conformance.ts";
import { createLatchkey } from "../index.ts";
import { migratePostgres, postgresStore } from "../stores/postgres.ts";
import {
  type PostgresJsOptions,
  type PostgresJsSql,
  type PostgresJsTx,
  postgresJsTransactions,
} from "./postgres-js.ts";
import type { SqlRow, SqlValue } from "./transaction.ts";

type Tx = postgres.TransactionSql;

function openSql(url: string, options: postgres.Options<Record<string, postgres.PostgresType>> = {}) {
  const sql = postgres(url, { max: 4, onnotice: () => {}, ...options });
  onRelease(() => sql.end({ timeout: 0 }));
  return sql;
}

const conforming = {
  execute: async (tx: Tx, source: string, values: readonly SqlValue[] = []) =>
    (await tx.unsafe(source, values as never[])) as unknown as readonly SqlRow[],
  prepare(tx: Tx, source: string) {
    const query = tx.unsafe(source);
    return async () => query;
  },
};

let applications = 0;

/** How many of an application's backends the server sees at work or in a transaction; 1 until it has been asked again. */
function busyOf(observer: pg.Pool, application: string): () => number {
  const text =
    "select count(*)::int as n from pg_stat_activity where application_name = $1 and state <> 'idle'";
  let seen = 1;
  return () => {
    const busy = seen;
    seen = 1;
    observer.query(text, [application]).then(
      ({ rows }) => {
        seen = rows[0].n;
      },
      () => {},
    );
    return busy;
  };
}

forEachPostgres((_version, database) => {
  const ways = ["named statements", "no prepared statements"];
  describe.each(isThorough ? ways : ways.slice(0, 1))(
    "postgresJsTransactions keeps the bridge contract: %s",
    (how) => {
      transactionConformance<Tx>({
        test,
        sessions: "many",
        commitNotice: false,
        factory({ connections }) {
          const application = `postgres.js ${++applications}`;
          const sql = postgres(database.url, {
            max: connections,
            prepare: how === "named statements",
            fetch_types: how === "named statements",
            connection: { application_name: application },
            onnotice: () => {},
          });
          const observer = openPool(database.url, { max: 2 });
          const pool = openPool(database.url, { max: connections });
          const bridge = postgresJsTransactions({ sql });
          return {
            bridge,
            ...conforming,
            outside: async (source, values = []) => (await observer.query(source, [...values])).rows,
            async makeStore() {
              await migratePostgres(pool);
              return postgresStore({ pool, transactions: bridge });
            },
            busyConnections: busyOf(observer, application),
            async close() {
              await Promise.all([sql.end({ timeout: 1 }), pool.end(), observer.end()]);
            },
          };
        },
      });
    },
  );
});

describe("a handler under postgres.js", () => {
  let url = "";
  let pool: pg.Pool;
  let sql: postgres.Sql;
  let operations = 0;

  beforeAll(async () => {
    url = await migratedDatabase();
    pool = openPool(url, { max: 3 });
    await pool.query(
      "create table payments (id integer generated always as identity primary key, account_name text not null)",
    );
    sql = openSql(url);
  });

  afterAll(() => pool.end());

  function payThrough<S extends PostgresJsSql>(over: S, options: Partial<PostgresJsOptions<S>> = {}) {
    const transactions = postgresJsTransactions({ sql: over, ...options });
    const latchkey = createLatchkey({ store: postgresStore({ pool, transactions }) });
    const operation = latchkey.operation(`payments-${++operations}`);
    return (key: string, handler: (tx: PostgresJsTx<S>) => Promise<unknown>) =>
      latchkey.run(operation, { tenant: "t", key, input: key }, ({ tx }) => handler(tx));
  }

  const accounts = async () =>
    (await pool.query<{ account_name: string }>("select account_name from payments order by id")).rows.map(
      (row) => row.account_name,
    );
  const insert = (tx: postgres.ISql, account: string) =>
    tx`insert into payments ${tx({ account_name: account })} returning id, account_name`;

  test("`tx` is a TransactionSql, and a second request gets the first answer", async () => {
    expectTypeOf<PostgresJsTx<typeof sql>>().toEqualTypeOf<postgres.TransactionSql>();
    const pay = payThrough(sql);
    const first = await pay("typed", async (tx) => {
      const [row] = await insert(tx, "typed");
      const where = tx`where account_name = ${"typed"}`;
      const found = await tx`select * from payments ${where}`;
      const values = await tx`select id from payments ${where}`.values();
      const seen: unknown[] = [];
      await tx`select account_name from payments`.cursor(1, (rows) => void seen.push(...rows));
      for await (const rows of tx`select account_name from payments`.cursor()) seen.push(...rows);
      return [row, ...found, values.length, ...seen];
    });
    const row = { id: expect.any(Number), account_name: "typed" };
    const { account_name } = row;
    expect(first).toMatchObject({
      kind: "executed",
      value: [row, row, 1, { account_name }, { account_name }],
    });
    const second = await pay("typed", () => Promise.reject(new Error("must not run")));
    expect(second).toEqual({ ...first, kind: "replay" });
    expect(await accounts()).toEqual(["typed"]);
  });

  test("a transform of columns and types of the user's own hold in handlers, and not in Latchkey's statements", async () => {
    const own = openSql(url, {
      transform: postgres.camel,
      types: {
        upper: { to: 25, from: [25], serialize: String, parse: (text: string) => text.toUpperCase() },
      },
    });
    const pay = payThrough(own);
    const result = await pay("camel", async (tx) => {
      await tx`insert into payments ${tx({ accountName: "camel" })}`;
      return tx`select account_name from payments where account_name = 'camel'`;
    });
    expect(result).toMatchObject({ kind: "executed", value: [{ accountName: "CAMEL" }] });
    expect(await pay("camel", async () => null)).toMatchObject({ kind: "replay" });
  });

  test("a savepoint is the nested transaction, and an error swallowed in it undoes it", async () => {
    await payThrough(sql)("nested", async (tx) => {
      await insert(tx, "outer");
      const inner = tx.savepoint(async (nested) => {
        await insert(nested, "inner");
        throw new Error("only the inner one");
      });
      await expect(inner).rejects.toThrow("only the inner one");
      const swallowing = tx.savepoint(async (nested) => {
        await insert(nested, "inner, swallowed");
        await nested`select 1 / 0`.catch(() => {});
      });
      await expect(swallowing).rejects.toMatchObject({ code: "25P02" });
      await tx.savepoint("named", (nested) => [insert(nested, "inner, kept"), insert(nested, "inner, too")]);
    });
    expect((await accounts()).filter((account) => /inner|outer/u.test(account))).toEqual([
      "outer",
      "inner, kept",
      "inner, too",
    ]);
  });

  test("transaction control is refused, also in fragments, and changes nothing", async () => {
    const result = await payThrough(sql)("control", async (tx) => {
      await insert(tx, "control");
      const refusal = { code: "transaction-control" };
      await expect(tx`commit`).rejects.toMatchObject(refusal);
      await expect(tx.unsafe("select 1; rollback")).rejects.toMatchObject(refusal);
      await expect(tx`${tx.unsafe("commit")}`).rejects.toMatchObject(refusal);
      expect(() => tx.prepare("two phases")).toThrow("return from the handler to commit");
      expect(() => tx.file("statements.sql")).toThrow("pass its text to `tx.unsafe()`");
    });
    expect(result).toMatchObject({ kind: "executed" });
    expect(await accounts()).toContain("control");
  });

  test("an error that the handler swallows is Latchkey's error, and the key is free", async () => {
    const pay = payThrough(sql);
    const swallowing = pay("swallowed", async (tx) => {
      await insert(tx, "swallowed");
      await tx`select 1 / 0`.catch(() => {});
      return "paid";
    });
    await expect(swallowing).rejects.toMatchObject({ code: "transaction-aborted" });
    expect(await accounts()).not.toContain("swallowed");
    expect(await pay("swallowed", (tx) => insert(tx, "swallowed no more"))).toMatchObject({
      kind: "executed",
    });
  });

  test("a serialization failure runs the handler again", async () => {
    let runs = 0;
    const result = await payThrough(sql)("conflict", async (tx) => {
      runs += 1;
      await insert(tx, `run ${runs}`);
      if (runs === 1) await tx`do $$ begin raise exception 'conflict' using errcode = '40001'; end $$`;
      return runs;
    });
    expect(result).toMatchObject({ kind: "executed", value: 2 });
    expect((await accounts()).filter((account) => account.startsWith("run"))).toEqual(["run 2"]);
  });

  test("queries and savepoints are refused after the end", async () => {
    const late: (() => PromiseLike<unknown>)[] = [];
    await payThrough(sql)("late", async (tx) => {
      await insert(tx, "in time");
      const prepared = insert(tx, "late");
      late.push(
        () => prepared,
        () => insert(tx, "late"),
        () => tx.unsafe("select 1"),
        () => tx.savepoint((nested) => insert(nested, "late")),
        () => tx.notify("channel", "late"),
      );
    });
    for (const send of late) await expect(send()).rejects.toMatchObject({ code: "tx-revoked" });
    expect(await accounts()).not.toContain("late");
  });

  test("a backend that is killed fails what is sent, what waits and what comes after it, and the process lives", async () => {
    const ended: unknown[] = [];
    const run = payThrough(sql)("killed", async (tx) => {
      const [row] = await tx`select pg_backend_pid() as pid`;
      const sent = [tx`select pg_sleep(600)`, tx`select ${"waits"}::text`, tx`select ${"too"}::text`];
      const all = Promise.allSettled(sent);
      const asleep = "select 1 from pg_stat_activity where pid = $1 and wait_event = 'PgSleep'";
      await until(async () => (await pool.query(asleep, [row?.pid])).rows.length === 1);
      await pool.query("select pg_terminate_backend($1)", [row?.pid]);
      ended.push(...(await all).map(({ status }) => status));
      for (let count = 0; count < 3; count++) {
        await tx`select 1`.catch((error: { code: string }) => ended.push(error.code));
      }
      return "paid";
    });
    await expect(run).rejects.toThrow();
    expect(ended).toEqual([
      "rejected",
      "rejected",
      "rejected",
      "CONNECTION_CLOSED",
      "CONNECTION_CLOSED",
      "CONNECTION_CLOSED",
    ]);
    expect(await payThrough(sql)("after it", (tx) => insert(tx, "after it"))).toMatchObject({
      kind: "executed",
    });
  });

  test("a pool that is all in use is reported to have no connection, and works afterwards", async () => {
    const own = openSql(url, { max: 1 });
    const used = Promise.withResolvers<void>();
    const holding = own.begin(() => used.promise);
    const pay = payThrough(own, { connectTimeoutMs: patient(100) });
    await expect(pay("waiting", (tx) => insert(tx, "never"))).rejects.toMatchObject({
      code: "store-unavailable",
      certainty: "not_sent",
    });
    used.resolve();
    await holding;
    const unhurried = payThrough(own);
    expect(await unhurried("waiting", (tx) => insert(tx, "waited"))).toMatchObject({ kind: "executed" });
    expect(await accounts()).not.toContain("never");
  });

  test("a pool that the service's own transactions fill is overload: no circuit opens, and the next request is served", async () => {
    const own = openSql(url, { max: 2 });
    const events: string[] = [];
    const transactions = postgresJsTransactions({ sql: own, connectTimeoutMs: patient(500) });
    const latchkey = createLatchkey({
      store: postgresStore({ pool, transactions }),
      onEvent: ({ type }) => events.push(type),
    });
    const operation = latchkey.operation("overload");
    const pay = (key: string) =>
      latchkey.run(operation, { tenant: "t", key, input: key }, async ({ tx }) => insert(tx, key));
    await pay("warm");
    const used = Promise.withResolvers<void>();
    const holding = [own.begin(() => used.promise), own.begin(() => used.promise)];
    for (let count = 0; count < 6; count++) {
      await expect(pay(`refused ${count}`)).rejects.toMatchObject({ certainty: "not_sent", overload: true });
    }
    used.resolve();
    await Promise.all(holding);
    expect(await pay("next")).toMatchObject({ kind: "executed" });
    expect(events).not.toContain("circuit_opened");
  });

  const left: Readonly<Record<string, (tx: Tx) => Promise<unknown>>> = {
    "A cursor": (tx) => tx`select generate_series(1, 1000) as n`.cursor(10)[Symbol.asyncIterator]().next(),
    "A COPY": async (tx) => (await tx`copy payments (account_name) from stdin`.writable()).write("left\n"),
    "A COPY, to be read": async (tx) => {
      const rows = tx`copy (select repeat('x', 1000) from generate_series(1, 20000)) to stdout`;
      return (await rows.readable()).pause();
    },
  };
  test.each(Object.entries(left))(
    "%s left open: query-open, and the next request is served",
    async (what, leave) => {
      const own = openSql(url, { max: 1 });
      const pay = payThrough(own);
      const [named = ""] = what.split(",");
      await expect(pay(`open ${what}`, async (tx) => void (await leave(tx)))).rejects.toMatchObject({
        code: "query-open",
        message: expect.stringContaining(`${named} that the handler sent`),
      });
      const failure = new Error("the handler's own");
      const throwing = pay(`open ${what}`, async (tx) => {
        await leave(tx);
        throw failure;
      });
      await expect(throwing).rejects.toBe(failure);
      expect(await pay(`open ${what}`, (tx) => insert(tx, what))).toMatchObject({ kind: "executed" });
      expect(await accounts()).not.toContain("left");
    },
  );

  test("cursors and COPYs that are read or ended are served", async () => {
    const pay = payThrough(sql);
    const done = await pay("ended", async (tx) => {
      let seen = 0;
      for await (const rows of tx`select generate_series(1, 100) as n`.cursor(30)) seen += rows.length;
      for await (const [row] of tx`select generate_series(1, 100) as n`.cursor()) if (row?.n === 3) break;
      const lines = await tx`copy payments (account_name) from stdin`.writable();
      await pipeline(["copied\n"], lines);
      return seen;
    });
    expect(done).toMatchObject({ kind: "executed", value: 100 });
    expect(await accounts()).toContain("copied");
  });

  test("a database that cannot be reached is a StoreError", async () => {
    const bridge = postgresJsTransactions({ sql: openSql("postgres://127.0.0.1:9/none") });
    const opening = bridge.transact({ isolation: null, opening: [] }, () => Promise.reject(new Error("no")));
    await expect(opening).rejects.toMatchObject({ code: "store-unavailable", certainty: "not_sent" });
  });

  test("what is not postgres.js is refused", () => {
    for (const other of [{}, undefined, { begin() {}, unsafe() {} }]) {
      expect(() => postgresJsTransactions({ sql: other as PostgresJsSql })).toThrow("postgres.js returns");
    }
    const rows = openSql(url, { transform: { row: { from: (row: object) => row } } } as never);
    expect(() => postgresJsTransactions({ sql: rows })).toThrow("`transform.row`");
    expect(() => postgresJsTransactions({ sql, connectTimeoutMs: 0 })).toThrow(TypeError);
    expect(() => postgresJsTransactions({ sql, transactionsMax: 0.5 })).toThrow(TypeError);
  });
});
