import type pg from "pg";
import { DataSource, type DataSourceOptions, type EntityManager, EntitySchema } from "typeorm";
import { DataSource as DataSource03 } from "typeorm03";
import { beforeAll, describe, expect, expectTypeOf, test } from "vitest";
import {
  type ClientUnderTest,
  handlerCases,
  paymentsDatabase,
} from "../../../../test/postgres/client-handlers.ts";
import { expectNoLeak, openPool } from "../../../../test/postgres/harness.ts";
import { onRelease } from "../../../../test/support/resources.ts";
import { forEachPostgres } from "../../../../test/support/shared-postgres.ts";
import { isThorough } from "../../../../test/support/thorough.ts";
import { transactionConformance } from "../../../latchkey-conformance/src/transaction-conformance.ts";
import { migratePostgres, postgresStore } from "../stores/postgres.ts";
import type { SqlRow, SqlValue } from "./transaction.ts";
import { type TypeormDataSource, type TypeormTx, typeormPool, typeormTransactions } from "./typeorm.ts";

interface Payment {
  id: number;
  account: string;
}

const Payments = new EntitySchema<Payment>({
  name: "payment",
  tableName: "payments",
  columns: {
    id: { type: Number, primary: true, generated: true },
    account: { type: "text" },
  },
});

async function openDataSource(
  url: string,
  options: Partial<DataSourceOptions> = {},
  Class: typeof DataSource = DataSource,
): Promise<DataSource> {
  const dataSource = new Class({
    type: "postgres",
    url,
    poolSize: 6,
    entities: [Payments],
    ...options,
  } as DataSourceOptions);
  onRelease(async () => {
    if (dataSource.isInitialized) await dataSource.destroy();
  });
  return dataSource.initialize();
}

const conforming = {
  async execute(tx: EntityManager, source: string, values: readonly SqlValue[] = []) {
    const result = await tx.queryRunner?.query(source, [...values], true);
    return result?.records as SqlRow[];
  },
  prepare: (tx: EntityManager, source: string) => tx.query.bind(tx, source) as () => Promise<unknown>,
};

const versions = {
  "TypeORM 1": DataSource,
  "TypeORM 0.3": DataSource03 as unknown as typeof DataSource,
};

forEachPostgres((_version, database) => {
  const names = Object.keys(versions) as (keyof typeof versions)[];
  describe.each(isThorough ? names : names.slice(0, 1))("%s keeps the bridge contract", (name) => {
    transactionConformance<EntityManager>({
      test,
      sessions: "many",
      commitNotice: true,
      async factory({ connections }) {
        const size = { poolSize: connections } as Partial<DataSourceOptions>;
        const dataSource = await openDataSource(database.url, size, versions[name]);
        const pool = typeormPool(dataSource) as pg.Pool;
        const observer = openPool(database.url, { max: 2 });
        const bridge = typeormTransactions({ dataSource });
        return {
          bridge,
          ...conforming,
          outside: async (source, values = []) => (await observer.query(source, [...values])).rows,
          async makeStore() {
            await migratePostgres(pool);
            return postgresStore({ pool, transactions: bridge });
          },
          busyConnections: () => pool.totalCount - pool.idleCount,
          async close() {
            await Promise.all([dataSource.destroy(), observer.end()]);
          },
        };
      },
    });
  });
});

const client: ClientUnderTest<DataSource, EntityManager> = {
  open: (url, max = 6) => openDataSource(url, { poolSize: max } as Partial<DataSourceOptions>),
  transactions: (dataSource) => typeormTransactions({ dataSource }),
  pool: (dataSource) => typeormPool(dataSource),
  insert: (tx, account) => tx.insert(Payments, { account }),
  query: async (tx, text) => (await tx.query(text))[0],
  nested: (tx, work) => tx.transaction(async (nested) => work(nested)),
};

const insert = (tx: EntityManager, account: string) => tx.save(Payments, { account });

describe("TypeORM as every client", () => handlerCases(client));

describe("a handler under TypeORM", () => {
  const payments = paymentsDatabase(client);
  const { accounts, payThrough } = payments;
  let dataSource: DataSource;

  beforeAll(async () => {
    dataSource = await openDataSource(payments.url);
  });

  test("`tx` is an EntityManager, and a second request gets the first answer", async () => {
    expectTypeOf<TypeormTx<DataSource>>().toEqualTypeOf<EntityManager>();
    const pay = payThrough(dataSource);
    const first = await pay("typed", async (tx) => {
      expectTypeOf(tx).toEqualTypeOf<EntityManager>();
      const { id } = await insert(tx, "typed");
      const built = await tx.createQueryBuilder(Payments, "p").where("p.id = :id", { id }).getOne();
      return [await tx.getRepository(Payments).findOneByOrFail({ id }), built];
    });
    const row = { id: expect.any(Number), account: "typed" };
    expect(first).toMatchObject({ kind: "executed", value: [row, row] });
    const second = await pay("typed", () => Promise.reject(new Error("must not run")));
    expect(second).toEqual({ ...first, kind: "replay" });
    expect(await accounts()).toEqual(["typed"]);
  });

  test("a nested transaction is a savepoint", async () => {
    await payThrough(dataSource)("nested", async (tx) => {
      await insert(tx, "outer");
      const inner = tx.transaction(async (nested) => {
        await insert(nested, "inner");
        throw new Error("only the inner one");
      });
      await expect(inner).rejects.toThrow("only the inner one");
      await tx.transaction(async (nested) => {
        await nested.transaction((deeper) => insert(deeper, "inner, kept"));
      });
    });
    expect((await accounts()).filter((account) => /inner|outer/u.test(account))).toEqual([
      "outer",
      "inner, kept",
    ]);
  });

  test("ends of the query runner are refused, say what to do instead, and change nothing", async () => {
    const result = await payThrough(dataSource)("control", async (tx) => {
      await insert(tx, "control");
      const refusal = {
        code: "transaction-control",
        message: expect.stringContaining("return from the handler to commit, throw to roll back"),
      };
      await expect(tx.queryRunner?.commitTransaction()).rejects.toMatchObject(refusal);
      await expect(tx.queryRunner?.release()).rejects.toMatchObject(refusal);
      await expect(tx.release()).rejects.toMatchObject(refusal);
      await expect(tx.query("commit")).rejects.toMatchObject({ code: "transaction-control" });
      const client = await tx.queryRunner?.connect();
      await expect(client.query("commit")).rejects.toMatchObject({ code: "transaction-control" });
    });
    expect(result).toMatchObject({ kind: "executed" });
    expect(await accounts()).toContain("control");
  });

  test("after `rollbackTransaction()` nothing is committed", async () => {
    const run = payThrough(dataSource)("rolled back", async (tx) => {
      await insert(tx, "rolled back");
      await tx.queryRunner?.rollbackTransaction().catch(() => {});
      return "paid";
    });
    await expect(run).rejects.toMatchObject({ code: "transaction-control" });
    expect(await accounts()).not.toContain("rolled back");
  });

  test("managers, repositories, builders and nested transactions are refused after the end", async () => {
    const late: (() => Promise<unknown>)[] = [];
    await payThrough(dataSource)("late", async (tx) => {
      await insert(tx, "in time");
      const repository = tx.getRepository(Payments);
      const builder = tx.createQueryBuilder().insert().into(Payments).values({ account: "late" });
      late.push(
        () => insert(tx, "late"),
        () => repository.save({ account: "late" }),
        () => builder.execute(),
        () => tx.transaction((nested) => insert(nested, "late")),
      );
    });
    for (const send of late) await expect(send()).rejects.toMatchObject({ code: "tx-revoked" });
    expect(await accounts()).not.toContain("late");
  });

  test("the DataSource's isolation level is that of operations that name none", async () => {
    const own = await openDataSource(payments.url, {
      isolationLevel: "REPEATABLE READ",
    } as Partial<DataSourceOptions>);
    const level = async (tx: EntityManager) =>
      (await tx.query("select current_setting('transaction_isolation') as level"))[0].level;
    const pay = payThrough(own);
    expect(await pay("of the source", level)).toMatchObject({ value: "repeatable read" });
    expect(await payThrough(dataSource)("of the database", level)).toMatchObject({ value: "read committed" });
    const unknown = await openDataSource(payments.url);
    Object.assign(unknown.options, { isolationLevel: "SNAPSHOT" });
    expect(() => typeormTransactions({ dataSource: unknown })).toThrow(/no isolation level SNAPSHOT/u);
  });

  test("subscribers are notified before COMMIT and after it, and of a rollback", async () => {
    const own = await openDataSource(payments.url);
    const seen: string[] = [];
    const note = (event: string, account: string) => async () => {
      seen.push(`${event}: ${(await accounts()).includes(account) ? "there" : "not there"}`);
    };
    own.subscribers.push({
      beforeTransactionCommit: note("before commit", "noted"),
      afterTransactionCommit: note("after commit", "noted"),
      afterTransactionRollback: note("after rollback", "not noted"),
    });
    const pay = payThrough(own);
    await pay("noted", (tx) => insert(tx, "noted"));
    await pay("noted", () => Promise.reject(new Error("must not run")));
    await pay("not noted", async (tx) => {
      await insert(tx, "not noted");
      throw new Error("no");
    }).catch(() => {});
    const unused = typeormTransactions({ dataSource: own });
    const open = { isolation: null, opening: [] };
    await unused.transact(open, async () => ({ end: "rollback", value: 0 }));
    await unused.transact(open, async () => ({ end: "commit", value: 0, closing: [] }));
    expect(seen).toEqual(["before commit: not there", "after commit: there", "after rollback: not there"]);
  });

  test("a subscriber that fails before COMMIT rolls back; after it, the answer stands", async () => {
    const own = await openDataSource(payments.url);
    const failing: { before?: Error; after?: Error } = { before: new Error("audit failed") };
    own.subscribers.push({
      async beforeTransactionCommit() {
        if (failing.before) throw failing.before;
      },
      async afterTransactionCommit() {
        if (failing.after) throw failing.after;
      },
    });
    const pay = payThrough(own);
    await expect(pay("audited", (tx) => insert(tx, "audited"))).rejects.toThrow("audit failed");
    expect(await accounts()).not.toContain("audited");
    delete failing.before;
    failing.after = new Error("publishing failed");
    const warned = new Promise<Error>((resolve) => process.once("warning", resolve));
    expect(await pay("audited", (tx) => insert(tx, "audited"))).toMatchObject({ kind: "executed" });
    expect(await warned).toMatchObject({ code: "LATCHKEY_SUBSCRIBER_FAILED" });
    expect(await accounts()).toContain("audited");
  });

  test("a TypeORM whose query runner has another shape is refused, and nothing is left open", async () => {
    const pool = typeormPool(dataSource) as pg.Pool;
    const runners = [{}, { transactionDepth: 0, isTransactionActive: false, connect: async () => ({}) }];
    for (const runner of runners) {
      const changed = Object.assign(Object.create(dataSource), { createQueryRunner: () => runner });
      const bridge = typeormTransactions({ dataSource: changed });
      const opening = bridge.transact({ isolation: null, opening: [] }, () =>
        Promise.reject(new Error("must not run")),
      );
      await expect(opening).rejects.toThrow(/version of TypeORM is not supported/u);
      await expectNoLeak(pool);
    }
  });

  test("only an initialized DataSource for Postgres can have transactions", () => {
    const closed = new DataSource({ type: "postgres", url: payments.url });
    expect(() => typeormTransactions({ dataSource: closed })).toThrow("await dataSource.initialize()");
    const hiding = Object.assign(Object.create(dataSource), { driver: {} });
    for (const other of [hiding, { ...dataSource, options: { type: "mysql" } }, {}, undefined]) {
      expect(() => typeormTransactions({ dataSource: other as TypeormDataSource })).toThrow(TypeError);
      expect(() => typeormPool(other as TypeormDataSource)).toThrow(TypeError);
    }
    expect(() => typeormTransactions({ dataSource, connectTimeoutMs: 0 })).toThrow(TypeError);
  });
});
