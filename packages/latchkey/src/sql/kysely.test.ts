import type { PGlite } from "@electric-sql/pglite";
import {
  CamelCasePlugin,
  type CompiledQuery,
  type ControlledTransaction,
  type Generated,
  Kysely,
  MysqlDialect,
  PGliteDialect,
  PostgresDialect,
  sql,
  type Transaction,
} from "kysely";
import { Kysely as Kysely27, PostgresDialect as PostgresDialect27 } from "kysely27";
import { Kysely as Kysely28, PostgresDialect as PostgresDialect28 } from "kysely28";
import type pg from "pg";
import Cursor from "pg-cursor";
import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from "vitest";
import { openPool } from "../../../../test/postgres/harness.ts";
import { readyPglite } from "../../../../test/support/ready-pglite.ts";
import {
  type FreshDatabase,
  forEachPostgres,
  freshDatabase,
} from "../../../../test/support/shared-postgres.ts";
import { isThorough } from "../../../../test/support/thorough.ts";
import { transactionConformance } from "../../../latchkey-conformance/src/transaction-conformance.ts";
import { createLatchkey } from "../index.ts";
import { migratePglite, pgliteStore } from "../stores/pglite.ts";
import { migratePostgres, postgresStore } from "../stores/postgres.ts";
import { type KyselyDatabase, type KyselyOptions, type KyselyTx, kyselyTransactions } from "./kysely.ts";
import type { SqlRow, SqlValue } from "./transaction.ts";

interface Tables {
  readonly payments: { readonly id: Generated<number>; readonly account: string };
}

/** What runs a compiled statement in every version of Kysely. */
interface Executor {
  executeQuery<R>(query: CompiledQuery<R>): Promise<{ rows: R[] }>;
}

function compiled(text: string, values: readonly SqlValue[] = []) {
  const { queryId } = sql`select 1`.compile(compiling);
  return {
    sql: text,
    parameters: values,
    query: { kind: "RawNode", sqlFragments: [text], parameters: [] },
    queryId,
  };
}

async function execute(tx: Executor, text: string, values: readonly SqlValue[] = []) {
  return (await tx.executeQuery(compiled(text, values) as CompiledQuery<SqlRow>)).rows;
}

/** A statement of Kysely's sends nothing until it is executed. */
const prepare = (tx: Kysely<unknown>, text: string) => {
  const statement = sql.raw(text);
  return () => statement.execute(tx);
};

const compiling = new Kysely<unknown>({ dialect: new PostgresDialect({ pool: openPool("postgres://") }) });

forEachPostgres((_version, database) => {
  const makers = {
    "Kysely 0.29": (pool: pg.Pool) => new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) }),
    "Kysely 0.28": (pool: pg.Pool) =>
      new Kysely28<unknown>({ dialect: new PostgresDialect28({ pool }) }) as unknown as Kysely<unknown>,
  };
  describe.each(Object.entries(makers))(
    "kyselyTransactions on a pg Pool, %s, keeps the bridge contract",
    (_, make) => {
      transactionConformance<KyselyTx<Kysely<unknown>>>({
        test,
        sessions: "many",
        commitNotice: true,
        factory({ connections }) {
          const pool = openPool(database.url, { max: connections });
          const observer = openPool(database.url, { max: 2 });
          const bridge = kyselyTransactions({ db: make(pool), pool });
          return {
            bridge,
            execute,
            prepare,
            outside: async (source, values = []) => (await observer.query(source, [...values])).rows,
            async makeStore() {
              await migratePostgres(pool);
              return postgresStore({ pool, transactions: bridge });
            },
            busyConnections: () => pool.totalCount - pool.idleCount,
            async close() {
              await Promise.all([pool.end(), observer.end()]);
            },
          };
        },
      });
    },
  );
});

describe.runIf(isThorough)("kyselyTransactions on PGlite keeps the bridge contract", () => {
  let database: PGlite;
  beforeAll(async () => {
    database = await readyPglite();
  });
  afterAll(() => database.close());

  transactionConformance<KyselyTx<Kysely<unknown>>>({
    test,
    sessions: "one",
    commitNotice: true,
    factory() {
      const db = new Kysely<unknown>({ dialect: new PGliteDialect({ pglite: database }) });
      const bridge = kyselyTransactions({ db, pool: database });
      return {
        bridge,
        execute,
        prepare,
        outside: async (source, values = []) => (await database.query<SqlRow>(source, [...values])).rows,
        async makeStore() {
          await migratePglite(database);
          return pgliteStore({ database, transactions: bridge });
        },
        busyConnections: () => (database.isInTransaction() ? 1 : 0),
        close() {},
      };
    },
  });
});

const paymentsTable =
  "create table payments (id integer generated always as identity primary key, account text not null)";

let operations = 0;

describe("a handler under Kysely", () => {
  let fresh: FreshDatabase;
  let pool: pg.Pool;

  beforeAll(async () => {
    fresh = await freshDatabase();
    pool = openPool(fresh.url, { max: 4 });
    await migratePostgres(pool);
    await pool.query(paymentsTable);
  });

  afterAll(async () => {
    await pool.end();
    await fresh.drop();
  });

  const database = () => new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });

  function setUp<D extends KyselyDatabase>(db: D, more: Partial<KyselyOptions<D>> = {}) {
    const store = postgresStore({ pool, transactions: kyselyTransactions({ db, pool, ...more }) });
    const latchkey = createLatchkey({ store });
    const operation = latchkey.operation(`payments-${++operations}`);
    return (key: string, handler: (tx: KyselyTx<D>) => Promise<unknown>) =>
      latchkey.run(operation, { tenant: "t", key, input: key }, ({ tx }) => handler(tx));
  }

  const accounts = async () =>
    (await pool.query<{ account: string }>("select account from payments")).rows.map((row) => row.account);

  test("`tx` is Kysely's own, with the tables' types", async () => {
    const db = database();
    expectTypeOf<KyselyTx<typeof db>>().toEqualTypeOf<ControlledTransaction<Tables, []>>();
    expectTypeOf<KyselyTx<typeof db>>().toExtend<Transaction<Tables>>();
    // @ts-expect-error there is no such column
    void ((tx: KyselyTx<typeof db>) => tx.insertInto("payments").values({ amount: 1 }));

    /** As users write them: for any transaction of theirs. */
    const insert = (tx: Transaction<Tables>, account: string) =>
      tx.insertInto("payments").values({ account }).returningAll().executeTakeFirstOrThrow();
    const pay = setUp(db);
    const first = await pay("typed", async (tx) => {
      const row = await insert(tx, "typed");
      expectTypeOf(row).toEqualTypeOf<{ id: number; account: string }>();
      const found = await tx.selectFrom("payments").selectAll().where("id", "=", row.id).execute();
      const { numUpdatedRows } = await tx
        .updateTable("payments")
        .set({ account: "typed" })
        .where("id", "=", row.id)
        .executeTakeFirst();
      return [row, ...found, String(numUpdatedRows)];
    });
    const row = { id: expect.any(Number), account: "typed" };
    expect(first).toMatchObject({ kind: "executed", value: [row, row, "1"] });
    const second = await pay("typed", () => Promise.reject(new Error("must not run")));
    expect(second).toEqual({ ...first, kind: "replay" });
    expect(await accounts()).toEqual(["typed"]);
  });

  test("plugins and schema of `db` hold in handlers", async () => {
    await pool.query("create schema billing; create table billing.open_items (item_name text)");
    type Camel = { openItems: { itemName: string } };
    const db = database().withPlugin(new CamelCasePlugin()).withSchema("billing").withTables<Camel>();
    const result = await setUp(db)("plugins", (tx) =>
      tx.insertInto("openItems").values({ itemName: "a" }).returningAll().execute(),
    );
    expect(result).toMatchObject({ kind: "executed", value: [{ itemName: "a" }] });
    expect((await pool.query("select * from billing.open_items")).rows).toEqual([{ item_name: "a" }]);
  });

  test("a subclass of Kysely with a constructor of its own serves", async () => {
    class Own extends Kysely<Tables> {
      constructor(own: pg.Pool) {
        super({ dialect: new PostgresDialect({ pool: own }) });
      }
    }
    const result = await setUp(new Own(pool))("subclass", (tx) =>
      tx.insertInto("payments").values({ account: "of a subclass" }).returning("account").execute(),
    );
    expect(result).toMatchObject({ kind: "executed" });
    expect(await accounts()).toContain("of a subclass");
  });

  test("`log` gets the handler's statements and none of Latchkey's", async () => {
    const logged: string[] = [];
    const log = (event: { level: string; query: CompiledQuery }) =>
      void logged.push(`${event.level}: ${event.query.sql} ${event.query.parameters}`);
    await setUp(database(), { log })("key-of-the-logged", async (tx) => {
      const nested = await tx.savepoint("s").execute();
      await nested.insertInto("payments").values({ account: "logged" }).execute();
      await expect(sql`select 1 / 0`.execute(tx)).rejects.toThrow(/division/);
      await nested.rollbackToSavepoint("s").execute();
    });
    expect(logged).toEqual([
      'query: savepoint "s" ',
      'query: insert into "payments" ("account") values ($1) logged',
      "error: select 1 / 0 ",
      'query: rollback to "s" ',
    ]);
  });

  test("a savepoint is the nested transaction", async () => {
    await setUp(database())("nested", async (tx) => {
      await tx.insertInto("payments").values({ account: "outer" }).execute();
      const inner = await tx.savepoint('in"ner').execute();
      await inner.insertInto("payments").values({ account: "inner" }).execute();
      await expect(sql`select 1 / 0`.execute(inner)).rejects.toThrow(/division/);
      const after = await inner.rollbackToSavepoint('in"ner').execute();
      await after.insertInto("payments").values({ account: "inner, kept" }).execute();
      await after.releaseSavepoint('in"ner').execute();
      expect(() => tx.transaction()).toThrow(/not supported/);
    });
    const found = await accounts();
    expect(found.filter((account) => /inner|outer/.test(account))).toEqual(["outer", "inner, kept"]);
  });

  test("`commit()` is refused, and the transaction goes on", async () => {
    const result = await setUp(database())("committing", async (tx) => {
      await tx.insertInto("payments").values({ account: "before commit()" }).execute();
      await expect(tx.commit().execute()).rejects.toMatchObject({
        code: "transaction-control",
        message: expect.stringContaining("return from the handler to commit"),
      });
      await tx.insertInto("payments").values({ account: "after commit()" }).execute();
    });
    expect(result).toMatchObject({ kind: "executed" });
    expect(await accounts()).toEqual(expect.arrayContaining(["before commit()", "after commit()"]));
  });

  test.each(["thrown", "swallowed"])(
    "`rollback()` is refused, and rolls back when the refusal is %s",
    async (how) => {
      const pay = setUp(database());
      const run = pay(`rolling back, ${how}`, async (tx) => {
        await tx.insertInto("payments").values({ account: "rolled back" }).execute();
        const refused = tx.withSchema("public").rollback().execute();
        if (how === "thrown") await refused;
        else await refused.catch(() => {});
      });
      await expect(run).rejects.toMatchObject({
        code: "transaction-control",
        message: expect.stringContaining("throw to roll back"),
      });
      expect(await accounts()).not.toContain("rolled back");
    },
  );

  test("a swallowed SQL error is a failure, and the key is free", async () => {
    const pay = setUp(database());
    const run = pay("swallowed", async (tx) => {
      await tx.insertInto("payments").values({ account: "swallowed" }).execute();
      await sql`select 1 / 0`.execute(tx).catch(() => {});
      return "success";
    });
    await expect(run).rejects.toMatchObject({ code: "transaction-aborted" });
    expect(await accounts()).not.toContain("swallowed");
    expect(await pay("swallowed", (tx) => tx.selectFrom("payments").selectAll().execute())).toMatchObject({
      kind: "executed",
    });
  });

  describe("stream()", () => {
    const stream = (tx: Transaction<Tables>) => tx.selectFrom("payments").select("account").stream(1);

    test("reads through the cursor", async () => {
      await setUp(database(), { cursor: Cursor })("streaming", async (tx) => {
        const accounts = ["stream 1", "stream 2", "stream 3"];
        await tx
          .insertInto("payments")
          .values(accounts.map((account) => ({ account })))
          .execute();
        const read: string[] = [];
        for await (const { account } of stream(tx)) if (account.startsWith("stream")) read.push(account);
        expect(read).toEqual(accounts);
        for await (const _ of stream(tx)) break;
        await tx.insertInto("payments").values({ account: "after a stream that was left" }).execute();
      });
      expect(await accounts()).toContain("after a stream that was left");
    });

    test("without a cursor says what to give", async () => {
      const run = setUp(database())("no cursor", async (tx) => {
        for await (const _ of stream(tx)) break;
      });
      await expect(run).rejects.toThrow(/pass the class of pg-cursor to kyselyTransactions/);
    });

    test("one that is still open at the end is an error that says so", async () => {
      const run = setUp(database(), { cursor: Cursor })("open stream", async (tx) => {
        await stream(tx)[Symbol.asyncIterator]().next();
      });
      await expect(run).rejects.toMatchObject({ code: "query-open" });
    });
  });

  test("what is no Kysely of a supported version for Postgres is refused", () => {
    const old = new Kysely27<Tables>({ dialect: new PostgresDialect27({ pool }) });
    const mysql = new Kysely<Tables>({ dialect: new MysqlDialect({ pool: async () => Promise.reject() }) });
    const transaction = Object.create(database(), { isTransaction: { value: true } });
    const refused: readonly (readonly [unknown, string])[] = [
      [old, "This version of Kysely is not supported"],
      [mysql, "must be made with a dialect for Postgres"],
      [transaction, "not a transaction of one"],
      [{}, "must be a Kysely object"],
      [undefined, "must be a Kysely object"],
    ];
    for (const [db, message] of refused) {
      expect(() => kyselyTransactions({ db: db as KyselyDatabase, pool })).toThrow(new RegExp(message));
    }
    const db = database();
    expect(() => kyselyTransactions({ db, pool: undefined as never })).toThrow(TypeError);
    expect(() => kyselyTransactions({ db, pool, connectTimeoutMs: 0 })).toThrow(TypeError);
  });
});

test("a handler under Kysely on PGlite", async () => {
  const database = await readyPglite();
  await migratePglite(database);
  await database.exec(paymentsTable);
  const db = new Kysely<Tables>({ dialect: new PGliteDialect({ pglite: database }) });
  const store = pgliteStore({ database, transactions: kyselyTransactions({ db, pool: database }) });
  const latchkey = createLatchkey({ store });
  const operation = latchkey.operation("payments");
  const pay = () =>
    latchkey.run(operation, { tenant: "t", key: "k", input: 1 }, async ({ tx }) => {
      expectTypeOf(tx).toEqualTypeOf<KyselyTx<typeof db>>();
      const nested = await tx.savepoint("s").execute();
      const { numInsertedOrUpdatedRows } = await nested
        .insertInto("payments")
        .values({ account: "undone" })
        .executeTakeFirst();
      await nested.rollbackToSavepoint("s").execute();
      const rows = await tx
        .insertInto("payments")
        .values({ account: "embedded" })
        .returning("account")
        .execute();
      return [...rows, String(numInsertedOrUpdatedRows)];
    });
  expect(await pay()).toMatchObject({ kind: "executed", value: [{ account: "embedded" }, "1"] });
  expect(await pay()).toMatchObject({ kind: "replay", value: [{ account: "embedded" }, "1"] });
  await database.close();
});
