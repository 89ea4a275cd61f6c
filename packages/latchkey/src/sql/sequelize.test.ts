import { AsyncLocalStorage } from "node:async_hooks";
import {
  type CreationOptional,
  DataTypes,
  type InferAttributes,
  type InferCreationAttributes,
  Model,
  type Options,
  Sequelize,
  type Transaction,
} from "sequelize";
import { beforeAll, describe, expect, expectTypeOf, test } from "vitest";
import {
  type ClientUnderTest,
  handlerCases,
  paymentsDatabase,
} from "../../../../test/postgres/client-handlers.ts";
import { openPool } from "../../../../test/postgres/harness.ts";
import { onRelease } from "../../../../test/support/resources.ts";
import { forEachPostgres } from "../../../../test/support/shared-postgres.ts";
import { transactionConformance } from "../../../latchkey-conformance/src/transaction-conformance.ts";
import { migratePostgres, postgresStore } from "../stores/postgres.ts";
import {
  type SequelizeDatabase,
  type SequelizeTx,
  sequelizePool,
  sequelizeTransactions,
} from "./sequelize.ts";
import type { SqlRow, SqlValue } from "./transaction.ts";

class Payment extends Model<InferAttributes<Payment>, InferCreationAttributes<Payment>> {
  declare id: CreationOptional<number>;
  declare account: string;
}

function openSequelize(url: string, options: Options = {}, Class: typeof Sequelize = Sequelize): Sequelize {
  const sequelize = new Class(url, { logging: false, pool: { max: 6 }, ...options });
  let closed = false;
  const close = sequelize.close.bind(sequelize);
  sequelize.close = async () => {
    closed = true;
    await close();
  };
  onRelease(() => (closed ? undefined : close()));
  return sequelize;
}

const poolUnder = (sequelize: Sequelize) =>
  (sequelize as unknown as { connectionManager: { pool: { using: number } } }).connectionManager.pool;

forEachPostgres((_version, database) => {
  describe("Sequelize 6 keeps the bridge contract", () => {
    transactionConformance<Transaction>({
      test,
      sessions: "many",
      commitNotice: true,
      factory({ connections }) {
        const sequelize = openSequelize(database.url, { pool: { max: connections } });
        const observer = openPool(database.url, { max: 2 });
        const query = async (transaction: Transaction, source: string, bind: readonly SqlValue[] = []) =>
          (await sequelize.query(source, { transaction, ...(bind.length > 0 && { bind: [...bind] }) }))[0];
        const bridge = sequelizeTransactions({ sequelize });
        const pool = sequelizePool(sequelize);
        return {
          bridge,
          execute: async (tx, source, values) => (await query(tx, source, values)) as SqlRow[],
          prepare: (tx, source) => query.bind(null, tx, source),
          outside: async (source, values = []) => (await observer.query(source, [...values])).rows,
          async makeStore() {
            await migratePostgres(pool);
            return postgresStore({ pool, transactions: bridge });
          },
          busyConnections: () => poolUnder(sequelize).using,
          async close() {
            await Promise.all([sequelize.close(), observer.end()]);
          },
        };
      },
    });
  });
});

const query = async (sequelize: Sequelize, transaction: Transaction, text: string, bind: unknown[] = []) =>
  (await sequelize.query(text, { transaction, ...(bind.length > 0 && { bind }) }))[0][0];

const client: ClientUnderTest<Sequelize, Transaction> = {
  open: (url, max = 6) => openSequelize(url, { pool: { max } }),
  transactions: (sequelize) => sequelizeTransactions({ sequelize }),
  pool: (sequelize) => sequelizePool(sequelize),
  insert: (tx, account, sequelize) =>
    query(sequelize, tx, "insert into payments (account) values ($1)", [account]),
  query: async (tx, text, sequelize) => (await query(sequelize, tx, text)) as Record<string, unknown>,
  nested: (transaction, work, sequelize) =>
    sequelize.transaction({ transaction }, async (nested) => work(nested)),
};

describe("Sequelize as every client", () => handlerCases(client));

describe("a handler under Sequelize", () => {
  const payments = paymentsDatabase(client);
  const { accounts, payThrough } = payments;
  let sequelize: Sequelize;

  beforeAll(async () => {
    await payments.observer.query("create unique index on payments (account) where account = 'only once'");
    sequelize = openSequelize(payments.url);
    Payment.init(
      {
        id: { type: DataTypes.INTEGER, primaryKey: true, autoIncrement: true },
        account: { type: DataTypes.TEXT, allowNull: false },
      },
      { sequelize, tableName: "payments", timestamps: false },
    );
  });

  const insert = async (transaction: Transaction | null, account: string) =>
    (await Payment.create({ account }, { transaction })).get({ plain: true });

  test("`tx` is Sequelize's own, and a second request gets the first answer", async () => {
    expectTypeOf<SequelizeTx<Sequelize>>().toEqualTypeOf<Transaction>();
    const pay = payThrough(sequelize);
    const first = await pay("typed", async (transaction) => {
      expectTypeOf(transaction).toEqualTypeOf<Transaction>();
      const created = await insert(transaction, "typed");
      const found = await Payment.findByPk(created.id, {
        transaction,
        lock: transaction.LOCK.UPDATE,
        raw: true,
      });
      return [created, found];
    });
    const row = { id: expect.any(Number), account: "typed" };
    expect(first).toMatchObject({ kind: "executed", value: [row, row] });
    const second = await pay("typed", () => Promise.reject(new Error("must not run")));
    expect(second).toEqual({ ...first, kind: "replay" });
    expect(await accounts()).toEqual(["typed"]);
  });

  test("`commit()` is refused, says what to do instead, and changes nothing", async () => {
    const result = await payThrough(sequelize)("control", async (transaction) => {
      await insert(transaction, "control");
      await expect(transaction.commit()).rejects.toMatchObject({
        code: "transaction-control",
        message: expect.stringContaining("return from the handler to commit, throw to roll back"),
      });
      const raw = sequelize.query("commit", { transaction });
      await expect(raw).rejects.toMatchObject({ original: { code: "transaction-control" } });
    });
    expect(result).toMatchObject({ kind: "executed" });
    expect(await accounts()).toContain("control");
  });

  test.each(["awaited", "not awaited"])("after `rollback()`, %s, nothing is committed", async (way) => {
    const run = payThrough(sequelize)(`rolled back, ${way}`, async (transaction) => {
      await insert(transaction, "rolled back");
      const refused = transaction.rollback();
      if (way === "awaited") await refused.catch(() => {});
      return "paid";
    });
    await expect(run).rejects.toMatchObject({ code: "transaction-control" });
    expect(await accounts()).not.toContain("rolled back");
  });

  test("an error that the handler swallows is Latchkey's error, and the key is free", async () => {
    await insert(null, "only once");
    const pay = payThrough(sequelize);
    const swallowing = pay("swallowed", async (transaction) => {
      await insert(transaction, "swallowed");
      await insert(transaction, "only once").catch(() => {});
      return "paid";
    });
    await expect(swallowing).rejects.toMatchObject({ code: "transaction-aborted" });
    expect(await accounts()).not.toContain("swallowed");
    expect(await pay("swallowed", (transaction) => insert(transaction, "no more"))).toMatchObject({
      kind: "executed",
    });
  });

  test("models and nested transactions are refused after the end", async () => {
    const late: (() => Promise<unknown>)[] = [];
    await payThrough(sequelize)("late", async (transaction) => {
      const payment = await Payment.create({ account: "in time" }, { transaction });
      late.push(
        () => insert(transaction, "late"),
        () => payment.update({ account: "late" }, { transaction }),
        () => sequelize.transaction({ transaction }, (nested) => insert(nested, "late")),
      );
    });
    for (const send of late) await expect(send()).rejects.toMatchObject({ original: { code: "tx-revoked" } });
    expect(await accounts()).not.toContain("late");
  });

  test("statements sent side by side run in the transaction, and those that come again get a name", async () => {
    const names = Array.from({ length: 8 }, (_, index) => `parallel ${index}`);
    const result = await payThrough(sequelize)("parallel", async (transaction) => {
      await Promise.all(names.map((account) => insert(transaction, account)));
      const [rows] = await sequelize.query(
        `select count(distinct xmin::text)::int as transactions,
          (select count(*)::int from pg_prepared_statements where name like 'lk\\_tx\\_%') as named
        from payments where account ~ $1`,
        { transaction, bind: ["parallel"] },
      );
      return rows[0];
    });
    expect(result).toMatchObject({ kind: "executed", value: { transactions: 1, named: 1 } });
    expect((await accounts()).filter((account) => account.startsWith("parallel"))).toEqual(names);
  });

  test("`afterCommit()` runs after COMMIT alone, and its errors leave the answer as it is", async () => {
    const pay = payThrough(sequelize);
    const seen: string[] = [];
    const hook = (name: string) => async () => {
      seen.push(`${name}: ${(await accounts()).includes(name) ? "there" : "not there"}`);
    };
    await pay("kept", async (transaction) => {
      transaction.afterCommit(hook("kept"));
      await insert(transaction, "kept");
    });
    await pay("dropped", async (transaction) => {
      transaction.afterCommit(hook("dropped"));
      await insert(transaction, "dropped");
      throw new Error("no");
    }).catch(() => {});
    expect(seen).toEqual(["kept: there"]);
    const warned = new Promise<Error>((resolve) => process.once("warning", resolve));
    const failing = pay("failing", async (transaction) => {
      transaction.afterCommit(() => Promise.reject(new Error("publishing failed")));
      await insert(transaction, "failing hook");
    });
    expect(await failing).toMatchObject({ kind: "executed" });
    expect(await warned).toMatchObject({ code: "LATCHKEY_AFTER_COMMIT_FAILED" });
  });

  test("under CLS, queries that name no transaction belong to `tx`", async () => {
    class WithCls extends Sequelize {}
    const context = new AsyncLocalStorage<Map<string, unknown>>();
    WithCls.useCLS({
      run: (work: () => void) => context.run(new Map(), work),
      bind: (work: () => void) => work,
      get: (name: string) => context.getStore()?.get(name),
      set: (name: string, value: unknown) => void context.getStore()?.set(name, value),
    });
    onRelease(() => void Reflect.set(Sequelize, "_cls", undefined));
    const own = openSequelize(payments.url, {}, WithCls);
    const run = payThrough(own)("by cls", async () => {
      await own.query("insert into payments (account) values ('by cls')");
      throw new Error("undone");
    });
    await expect(run).rejects.toThrow("undone");
    Reflect.set(Sequelize, "_cls", undefined);
    expect(await accounts()).not.toContain("by cls");
  });

  test("Sequelize's isolation level is that of operations that name none", async () => {
    const level = (over: Sequelize) => async (transaction: Transaction) =>
      (await over.query("select current_setting('transaction_isolation') as level", { transaction }))[0];
    const own = openSequelize(payments.url, { isolationLevel: "REPEATABLE READ" } as Options);
    expect(await payThrough(own)("own", level(own))).toMatchObject({ value: [{ level: "repeatable read" }] });
    expect(await payThrough(sequelize)("the database's", level(sequelize))).toMatchObject({
      value: [{ level: "read committed" }],
    });
  });

  test("a pool whose connections are all in use is an overload, in Sequelize's limit as in Latchkey's", async () => {
    for (const [acquire, connectTimeoutMs] of [
      // The one that ends it also limits how long the first connection may take to open.
      [2_000, 60_000],
      [60_000, 50],
    ] as const) {
      const own = openSequelize(payments.url, { pool: { max: 1, acquire } });
      const bridge = sequelizeTransactions({ sequelize: own, connectTimeoutMs });
      const blocker = await own.transaction();
      const full = bridge.transact({ isolation: null, opening: [] }, async () => ({
        end: "rollback",
        value: 0,
      }));
      await expect(full).rejects.toMatchObject({ certainty: "not_sent", overload: true });
      await blocker.rollback();
    }
  });

  test("a Sequelize whose transactions have another shape is refused, and nothing is left open", async () => {
    class Other extends Sequelize {}
    Object.assign(Other, { Transaction: class {} });
    const own = openSequelize(payments.url, {}, Other);
    const opening = sequelizeTransactions({ sequelize: own }).transact({ isolation: null, opening: [] }, () =>
      Promise.reject(new Error("must not run")),
    );
    await expect(opening).rejects.toThrow(/version of Sequelize is not supported/u);
    expect(poolUnder(own).using).toBe(0);
  });

  test("only Sequelize 6 on `pg` can have transactions", () => {
    const stranger = Object.assign(Object.create(sequelize), { getDialect: () => "mysql" });
    const native = Object.assign(Object.create(sequelize), { options: { native: true } });
    for (const other of [stranger, native, {}, undefined]) {
      expect(() => sequelizeTransactions({ sequelize: other as SequelizeDatabase })).toThrow(TypeError);
      expect(() => sequelizePool(other as SequelizeDatabase)).toThrow(TypeError);
    }
    expect(() => sequelizeTransactions({ sequelize, connectTimeoutMs: 0 })).toThrow(TypeError);
  });
});
