import type { PGlite } from "@electric-sql/pglite";
import { eq, sql, TransactionRollbackError } from "drizzle-orm";
import { drizzle, type NodePgDatabase } from "drizzle-orm/node-postgres";
import { integer, pgTable, text } from "drizzle-orm/pg-core";
import { drizzle as drizzlePglite } from "drizzle-orm/pglite";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from "vitest";
import { expectNoLeak, openPool } from "../../../../test/postgres/harness.ts";
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
import { type DrizzleDatabase, type DrizzleTx, drizzleTransactions } from "./drizzle.ts";
import type { SqlRow, SqlValue } from "./transaction.ts";

const payments = pgTable("payments", {
  id: integer().generatedAlwaysAsIdentity().primaryKey(),
  account: text().notNull(),
});
const schema = { payments };

interface Executor {
  execute(query: ReturnType<typeof sql>): PromiseLike<unknown>;
}

/** A text with `$1` placeholders as Drizzle's own template. */
function queryOf(source: string, values: readonly SqlValue[] = []) {
  const pieces = source.split(/\$\d+/u);
  const order = [...source.matchAll(/\$(\d+)/gu)].map(([, number]) => values[Number(number) - 1]);
  return sql(Object.assign(pieces, { raw: pieces }), ...order);
}

async function execute(tx: Executor, source: string, values: readonly SqlValue[] = []) {
  return ((await tx.execute(queryOf(source, values))) as { rows: SqlRow[] }).rows;
}

/** A builder sends nothing until it is awaited. */
function prepare(tx: Executor, source: string) {
  const builder = tx.execute(queryOf(source));
  return async () => builder;
}

forEachPostgres((_version, database) => {
  describe("drizzleTransactions on a pg Pool keeps the bridge contract", () => {
    transactionConformance<DrizzleTx<NodePgDatabase & { $client: pg.Pool }>>({
      test,
      sessions: "many",
      commitNotice: true,
      factory({ connections }) {
        const pool = openPool(database.url, { max: connections });
        const observer = openPool(database.url, { max: 2 });
        const bridge = drizzleTransactions({ db: drizzle(pool) });
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
  });
});

describe.runIf(isThorough)("drizzleTransactions on PGlite keeps the bridge contract", () => {
  let database: PGlite;
  beforeAll(async () => {
    database = await readyPglite();
  });
  afterAll(() => database.close());

  transactionConformance({
    test,
    sessions: "one",
    commitNotice: true,
    factory() {
      const bridge = drizzleTransactions({ db: drizzlePglite(database) });
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

function payThrough<D extends DrizzleDatabase>(pool: pg.Pool, db: D) {
  const store = postgresStore({ pool, transactions: drizzleTransactions({ db }) });
  const latchkey = createLatchkey({ store });
  const operation = latchkey.operation(`payments-${++operations}`);
  return (key: string, handler: (tx: DrizzleTx<D>) => Promise<unknown>) =>
    latchkey.run(operation, { tenant: "t", key, input: key }, ({ tx }) => handler(tx));
}

describe("a handler under Drizzle", () => {
  let fresh: FreshDatabase;
  let pool: pg.Pool;
  const logged: string[] = [];

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

  function setUp() {
    const logger = {
      logQuery: (query: string, values: unknown[]) => void logged.push(query, ...values.map(String)),
    };
    const db = drizzle(pool, { schema, logger });
    return { db, pay: payThrough(pool, db) };
  }

  const accounts = async () =>
    (await pool.query<{ account: string }>("select account from payments")).rows.map((row) => row.account);

  test("`tx` is Drizzle's own, with the tables' types", async () => {
    const { db, pay } = setUp();
    expectTypeOf<DrizzleTx<typeof db>>().toEqualTypeOf<Parameters<Parameters<typeof db.transaction>[0]>[0]>();
    const insert = (tx: DrizzleTx<typeof db>) => tx.insert(payments).values({ account: "typed" }).returning();
    expectTypeOf(insert).returns.resolves.toEqualTypeOf<{ id: number; account: string }[]>();
    // @ts-expect-error there is no such column
    void ((tx: DrizzleTx<typeof db>) => tx.insert(payments).values({ amount: 1 }));

    const first = await pay("typed", async (tx) => {
      const [row] = await insert(tx);
      const found = await tx.query.payments.findFirst({ where: eq(payments.id, row?.id ?? 0) });
      const listed = await tx.select().from(payments).where(eq(payments.account, "typed"));
      return [row, found, ...listed];
    });
    const row = { id: expect.any(Number), account: "typed" };
    expect(first).toMatchObject({ kind: "executed", value: [row, row, row] });
    const second = await pay("typed", () => Promise.reject(new Error("must not run")));
    expect(second).toEqual({ ...first, kind: "replay" });
    expect(await accounts()).toEqual(["typed"]);
  });

  test("Drizzle's logger sees the handler's statements and none of Latchkey's", async () => {
    const { pay } = setUp();
    logged.length = 0;
    await pay("key-of-the-logged", (tx) => tx.insert(payments).values({ account: "logged" }));
    expect(logged.filter((text) => text.includes("insert"))).toHaveLength(1);
    expect(logged.join("\n")).not.toContain("latchkey");
    expect(logged.join("\n")).not.toContain("key-of-the-logged");
  });

  test("a nested transaction is a savepoint", async () => {
    const { pay } = setUp();
    await pay("nested", async (tx) => {
      await tx.insert(payments).values({ account: "outer" });
      const inner = tx.transaction(async (nested) => {
        await nested.insert(payments).values({ account: "inner" });
        throw new Error("only the inner one");
      });
      await expect(inner).rejects.toThrow("only the inner one");
      await tx.transaction((nested) => nested.insert(payments).values({ account: "inner, kept" }));
    });
    const found = await accounts();
    expect(found.filter((account) => /inner|outer/.test(account))).toEqual(["outer", "inner, kept"]);
  });

  test("`tx.rollback()` rolls back, and comes out as the handler's error", async () => {
    const { pay } = setUp();
    const run = pay("rolled back", async (tx) => {
      await tx.insert(payments).values({ account: "rolled back" });
      tx.rollback();
    });
    await expect(run).rejects.toBeInstanceOf(TransactionRollbackError);
    expect(await accounts()).not.toContain("rolled back");
    expect(await pay("rolled back", async (tx) => void (await tx.select().from(payments)))).toMatchObject({
      kind: "executed",
    });
  });

  test("what was built or prepared before the end is not sent after it", async () => {
    const { pay } = setUp();
    const late: PromiseLike<unknown>[] = [];
    const run: { prepared?: { execute(): Promise<unknown> } } = {};
    await pay("late", async (tx) => {
      await tx.insert(payments).values({ account: "in time" });
      late.push(tx.insert(payments).values({ account: "late" }), tx.query.payments.findMany());
      run.prepared = tx.insert(payments).values({ account: "late" }).prepare("late_insert");
    });
    const refusal = expect.objectContaining({ cause: expect.objectContaining({ code: "tx-revoked" }) });
    for (const builder of late) await expect(builder).rejects.toEqual(refusal);
    await expect(run.prepared?.execute()).rejects.toEqual(refusal);
    expect(await accounts()).not.toContain("late");
  });

  test("a record that is there at COMMIT, and was not at the look-up, makes it lose and decide again", async () => {
    const { pay } = setUp();
    const appears = sql`
      insert into latchkey.records (tenant, scope, key, id, operation, state, fingerprint_version, fingerprint, attempt,
        token, created_at)
      select tenant, scope, 'appears', gen_random_uuid(), 'x', 'retryable', 1, '', 1, gen_random_uuid(), now()
      from latchkey.records where key = 'before'`;
    await pay("before", (tx) => tx.insert(payments).values({ account: "before" }).returning());
    let runs = 0;
    const result = await pay("appears", async (tx) => {
      runs += 1;
      await tx.insert(payments).values({ account: `appears ${runs}` });
      if (runs === 1) await tx.execute(appears);
      return runs;
    });
    expect(result).toMatchObject({ kind: "executed", value: 2 });
    expect((await accounts()).filter((account) => account.startsWith("appears"))).toEqual(["appears 2"]);
  });

  test("a serialization failure inside Drizzle's wrapping runs the handler again", async () => {
    const { pay } = setUp();
    let runs = 0;
    const conflict = sql`do $$ begin raise exception 'conflict' using errcode = '40001'; end $$`;
    const result = await pay("conflict", async (tx) => {
      runs += 1;
      await tx.insert(payments).values({ account: `run ${runs}` });
      if (runs === 1) await tx.execute(conflict);
      return runs;
    });
    expect(result).toMatchObject({ kind: "executed", value: 2 });
    expect((await accounts()).filter((account) => account.startsWith("run"))).toEqual(["run 2"]);
  });

  test("a Drizzle that hides its client is refused, and nothing is left open", async () => {
    const hiding = {
      $client: pool,
      _: { session: { transaction: (work: (tx: object) => Promise<unknown>) => work({}) } },
      transaction: async (_: (tx: object) => Promise<unknown>) => {},
    };
    const bridge = drizzleTransactions({ db: hiding });
    const opening = bridge.transact({ isolation: null, opening: [] }, () =>
      Promise.reject(new Error("must not run")),
    );
    await expect(opening).rejects.toThrow(/version of Drizzle is not supported/);
    await expectNoLeak(pool);
  });

  test("only a pool, or PGlite, can have transactions side by side", () => {
    for (const db of [drizzle(new pg.Client(fresh.url)), drizzle.mock(), {}, undefined]) {
      expect(() => drizzleTransactions({ db: db as DrizzleDatabase })).toThrow(TypeError);
    }
    expect(() => drizzleTransactions({ db: drizzle(pool), connectTimeoutMs: 0 })).toThrow(TypeError);
  });
});

test("a handler under Drizzle on PGlite", async () => {
  const database = await readyPglite();
  await migratePglite(database);
  await database.exec(paymentsTable);
  const db = drizzlePglite(database, { schema });
  const store = pgliteStore({ database, transactions: drizzleTransactions({ db }) });
  const latchkey = createLatchkey({ store });
  const operation = latchkey.operation("payments");
  const pay = () =>
    latchkey.run(operation, { tenant: "t", key: "k", input: 1 }, async ({ tx }) => {
      expectTypeOf(tx).toEqualTypeOf<DrizzleTx<typeof db>>();
      return tx.insert(payments).values({ account: "embedded" }).returning();
    });
  expect(await pay()).toMatchObject({ kind: "executed", value: [{ id: 1, account: "embedded" }] });
  expect(await pay()).toMatchObject({ kind: "replay", value: [{ id: 1, account: "embedded" }] });
  await database.close();
});
