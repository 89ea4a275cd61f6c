import { PrismaPg } from "@prisma/adapter-pg";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from "vitest";
import {
  type Order,
  type Prisma,
  PrismaClient,
} from "../../../../examples/transactions/prisma/generated/client.ts";
import { expectNoLeak, openPool } from "../../../../test/postgres/harness.ts";
import {
  type FreshDatabase,
  forEachPostgres,
  freshDatabase,
} from "../../../../test/support/shared-postgres.ts";
import { until, within } from "../../../../test/support/until.ts";
import { transactionConformance } from "../../../latchkey-conformance/src/transaction-conformance.ts";
import { createLatchkey, type OperationOptions } from "../index.ts";
import { migratePostgres, postgresStore } from "../stores/postgres.ts";
import { type PrismaDatabase, type PrismaTx, prismaPool, prismaTransactions } from "./prisma.ts";
import type { SqlRow, SqlValue } from "./transaction.ts";

const clientOn = (pool: pg.Pool) => new PrismaClient({ adapter: new PrismaPg(prismaPool(pool)) });

function execute(tx: Prisma.TransactionClient, text: string, values: readonly SqlValue[] = []) {
  return tx.$queryRawUnsafe<SqlRow[]>(text, ...values);
}

/** A statement of Prisma's sends nothing until it is awaited. */
function prepare(tx: Prisma.TransactionClient, text: string) {
  const statement = tx.$executeRawUnsafe(text);
  return async () => statement;
}

forEachPostgres((_version, database) => {
  describe("prismaTransactions keeps the bridge contract", () => {
    transactionConformance<Prisma.TransactionClient>({
      test,
      sessions: "many",
      commitNotice: true,
      factory({ connections }) {
        const pool = openPool(database.url, { max: connections });
        const observer = openPool(database.url, { max: 2 });
        const prisma = clientOn(pool);
        const bridge = prismaTransactions({ prisma, pool });
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
            await prisma.$disconnect();
            await Promise.all([pool.end(), observer.end()]);
          },
        };
      },
    });
  });
});

let operations = 0;

describe("a handler under Prisma", () => {
  let fresh: FreshDatabase;
  let pool: pg.Pool;
  let prisma: PrismaClient;

  beforeAll(async () => {
    fresh = await freshDatabase();
    pool = openPool(fresh.url, { max: 4 });
    await migratePostgres(pool);
    await pool.query(`
      create table orders (id int generated always as identity primary key, item text not null);
      create table stock (item text primary key, "left" int not null);
      insert into stock values ('book', 10)`);
    prisma = clientOn(pool);
  });

  afterAll(async () => {
    await prisma.$disconnect();
    await pool.end();
    await fresh.drop();
  });

  function setUp<P extends PrismaDatabase>(
    client: P,
    on = pool,
    options: OperationOptions<"transaction"> = {},
  ) {
    const store = postgresStore({ pool: on, transactions: prismaTransactions({ prisma: client, pool: on }) });
    const latchkey = createLatchkey({ store });
    const operation = latchkey.operation(`orders-${++operations}`, options);
    return (key: string, handler: (tx: PrismaTx<P>) => Promise<unknown>) =>
      latchkey.run(operation, { tenant: "t", key, input: key }, ({ tx }) => handler(tx));
  }

  const items = async () =>
    (await pool.query<{ item: string }>("select item from orders")).rows.map(({ item }) => item);

  test("`tx` is Prisma's own, with the models' types", async () => {
    expectTypeOf<PrismaTx<PrismaClient>>().toEqualTypeOf<Prisma.TransactionClient>();
    const insert = (tx: PrismaTx<PrismaClient>) => tx.order.create({ data: { item: "typed" } });
    expectTypeOf(insert).returns.resolves.toEqualTypeOf<Order>();
    // @ts-expect-error there is no such column
    void ((tx: PrismaTx<PrismaClient>) => tx.order.create({ data: { amount: 1 } }));

    const order = setUp(prisma);
    const first = await order("typed", async (tx) => {
      const row = await insert(tx);
      const found = await tx.order.findUnique({ where: { id: row.id } });
      const many = await tx.order.findMany({ where: { item: "typed" } });
      return [row, found, ...many];
    });
    const row = { id: expect.any(Number), item: "typed" };
    expect(first).toMatchObject({ kind: "executed", value: [row, row, row] });
    const second = await order("typed", () => Promise.reject(new Error("must not run")));
    expect(second).toEqual({ ...first, kind: "replay" });
    expect(await items()).toEqual(["typed"]);
  });

  test("an extended client serves, with its extensions in handlers", async () => {
    const extended = prisma.$extends({
      model: {
        order: {
          shout(item: string) {
            return item.toUpperCase();
          },
        },
      },
      result: { order: { label: { needs: { item: true }, compute: ({ item }) => `<${item}>` } } },
    });
    const result = await setUp(extended)("extended", async (tx) => {
      const { label } = await tx.order.create({ data: { item: tx.order.shout("extended") } });
      return label;
    });
    expect(result).toMatchObject({ kind: "executed", value: "<EXTENDED>" });
  });

  test("a nested transaction is a savepoint, and so is an array of operations", async () => {
    await setUp(prisma)("nested", async (tx) => {
      await tx.order.create({ data: { item: "outer" } });
      const inner = tx.$transaction(async (nested) => {
        await nested.order.create({ data: { item: "inner" } });
        await nested.$queryRaw`select 1 / 0`;
      });
      await expect(inner).rejects.toThrow("division by zero");
      await tx.$transaction((nested) => nested.order.create({ data: { item: "inner, kept" } }));
      const array = [1, 2].map((count) => tx.order.create({ data: { item: `inner, array ${count}` } }));
      await tx.$transaction(array);
    });
    const found = (await items()).filter((item) => /inner|outer/.test(item));
    expect(found).toEqual(["outer", "inner, kept", "inner, array 1", "inner, array 2"]);
  });

  test("transaction control is refused with its code, and the transaction goes on", async () => {
    const result = await setUp(prisma)("control", async (tx) => {
      await tx.order.create({ data: { item: "before commit" } });
      await expect(tx.$executeRaw`commit`).rejects.toMatchObject({ code: "transaction-control" });
      await expect(tx.$executeRaw`ROLLBACK`).rejects.toMatchObject({ code: "transaction-control" });
      await tx.order.create({ data: { item: "after commit" } });
      return "done";
    });
    expect(result).toMatchObject({ kind: "executed", value: "done" });
    expect(await items()).toEqual(expect.arrayContaining(["before commit", "after commit"]));
  });

  test("what throws rolls back, and comes out as the handler's error", async () => {
    const thrown = new Error("only this handler");
    const run = setUp(prisma)("thrown", async (tx) => {
      await tx.order.create({ data: { item: "thrown" } });
      throw thrown;
    });
    await expect(run).rejects.toBe(thrown);
    expect(await items()).not.toContain("thrown");
  });

  test("a swallowed SQL error is a failure, and the key is free", async () => {
    const order = setUp(prisma);
    const run = order("swallowed", async (tx) => {
      await tx.order.create({ data: { item: "swallowed" } });
      await tx.$queryRaw`select 1 / 0`.catch(() => {});
      return "success";
    });
    await expect(run).rejects.toMatchObject({ code: "transaction-aborted" });
    expect(await items()).not.toContain("swallowed");
    expect(await order("swallowed", (tx) => tx.order.count())).toMatchObject({ kind: "executed" });
  });

  test("a serialization failure inside Prisma's wrapping runs the handler again", async () => {
    let runs = 0;
    const result = await setUp(prisma)("conflict", async (tx) => {
      runs += 1;
      await tx.order.create({ data: { item: `run ${runs}` } });
      if (runs === 1) {
        await tx.$executeRaw`do $$ begin raise exception 'conflict' using errcode = '40001'; end $$`;
      }
      return runs;
    });
    expect(result).toMatchObject({ kind: "executed", value: 2 });
    expect((await items()).filter((item) => item.startsWith("run"))).toEqual(["run 2"]);
  });

  test("a unique violation is no serialization failure: it comes out as Prisma's P2002", async () => {
    let runs = 0;
    const run = setUp(prisma)("unique", async (tx) => {
      runs += 1;
      await tx.stock.create({ data: { item: "book", left: 1 } });
    });
    await expect(run).rejects.toMatchObject({ code: "P2002" });
    expect(runs).toBe(1);
  });

  test("what was built before the end is not sent after it", async () => {
    const late: PromiseLike<unknown>[] = [];
    const kept: { tx?: PrismaTx<PrismaClient> } = {};
    await setUp(prisma)("late", async (tx) => {
      await tx.order.create({ data: { item: "in time" } });
      late.push(tx.order.create({ data: { item: "late" } }), tx.$executeRaw`delete from orders`);
      kept.tx = tx;
    });
    for (const builder of late) await expect(builder).rejects.toMatchObject({ code: "tx-revoked" });
    await expect(
      kept.tx?.$transaction(async (nested) => nested.order.create({ data: { item: "late" } })),
    ).rejects.toThrow();
    expect(await items()).toContain("in time");
    expect(await items()).not.toContain("late");
  });

  test("a nested transaction that is still open at the end rolls everything back", async () => {
    const hanging = Promise.withResolvers<void>();
    const run = setUp(prisma)("open nested", async (tx) => {
      await tx.order.create({ data: { item: "before the open one" } });
      const begun = Promise.withResolvers<void>();
      const nested = tx.$transaction(async (inner) => {
        await inner.order.create({ data: { item: "in the open one" } });
        begun.resolve();
        await hanging.promise;
      });
      nested.catch(() => {});
      await begun.promise;
    });
    await expect(run).rejects.toThrow("nested transaction is still active");
    hanging.resolve();
    expect(await items()).not.toContain("before the open one");
    expect(await items()).not.toContain("in the open one");
  });

  test("a handler that is abandoned in a nested transaction which hangs is not waited for", async () => {
    const bridge = prismaTransactions({ prisma, pool });
    const sleeping = "select pg_sleep(600) /* nested */";
    const abandoned = bridge.transact({ isolation: null, opening: [] }, async ({ tx }) => {
      tx.$transaction((nested) => nested.$queryRawUnsafe(sleeping)).catch(() => {});
      const find = "select from pg_stat_activity where wait_event = 'PgSleep' and query = $1";
      await until(async () => (await pool.query(find, [sleeping])).rowCount === 1);
      return { end: "abandon", value: "kept" };
    });
    expect(await within(abandoned, "the transaction ends")).toEqual({ kind: "rolled_back", value: "kept" });
  });

  test("a transaction of the service's own inside a handler is one of its own", async () => {
    const run = setUp(prisma)("beside", async (tx) => {
      await tx.order.create({ data: { item: "in the handler's" } });
      await prisma.$transaction((own) => own.order.create({ data: { item: "in one beside it" } }));
      throw new Error("the handler failed");
    });
    await expect(run).rejects.toThrow("the handler failed");
    expect(await items()).toContain("in one beside it");
    expect(await items()).not.toContain("in the handler's");
  });

  test("statements of Promise.all run inside the transaction", async () => {
    const result = await setUp(prisma)("parallel", async (tx) => {
      const rows = await Promise.all(
        [1, 2, 3].map((count) => tx.order.create({ data: { item: `parallel ${count}` } })),
      );
      return rows.map(({ item }) => item);
    });
    expect(result).toMatchObject({ kind: "executed", value: ["parallel 1", "parallel 2", "parallel 3"] });
    expect((await items()).filter((item) => item.startsWith("parallel"))).toHaveLength(3);
  });

  test("a pool of one serves, and the service's own transactions beside it", async () => {
    const one = openPool(fresh.url, { max: 1 });
    const client = clientOn(one);
    const order = setUp(client, one, { waitMs: 15_000 });
    const place = (key: string) => order(key, (tx) => tx.order.create({ data: { item: `one ${key}` } }));
    const own = client.$transaction((tx) => tx.order.create({ data: { item: "one own" } }), {
      maxWait: 60_000,
    });
    await Promise.all([place("a"), own, place("b"), place("a")]);
    expect((await items()).filter((item) => item.startsWith("one")).sort()).toEqual([
      "one a",
      "one b",
      "one own",
    ]);
    await client.$disconnect();
  });

  test("a handler's statement is one round trip, BEGIN and COMMIT with all that Latchkey sends are two", async () => {
    const one = openPool(fresh.url, { max: 1 });
    let roundTrips = 0;
    one.on("connect", (client) => {
      const { connection } = client as pg.PoolClient & { readonly connection: NodeJS.EventEmitter };
      connection.on("readyForQuery", () => {
        roundTrips += 1;
      });
    });
    const client = clientOn(one);
    const order = setUp(client, one);
    const tripsOf = async (key: string) => {
      const before = roundTrips;
      await order(key, async (tx) => {
        await tx.order.create({ data: { item: "counted" } });
        await tx.order.findFirst();
      });
      return roundTrips - before;
    };
    await tripsOf("warm");
    expect(await tripsOf("k")).toBe(4);
    await client.$disconnect();
  });

  test("an isolation level of the client's must be the operation's, too", async () => {
    const client = new PrismaClient({
      adapter: new PrismaPg(prismaPool(pool)),
      transactionOptions: { isolationLevel: "Serializable" },
    });
    const level = (tx: PrismaTx<PrismaClient>) =>
      tx.$queryRaw`select current_setting('transaction_isolation') as level`;
    const without = setUp(client)("isolation", level);
    await expect(without).rejects.toThrow(/set `isolation: "serializable"`/);
    const result = await setUp(client, pool, { isolation: "serializable" })("isolation", level);
    expect(result).toMatchObject({ kind: "executed", value: [{ level: "serializable" }] });
    await expectNoLeak(pool);
    await client.$disconnect();
  });

  test("a client on another pool is refused before the handler, and nothing is left open", async () => {
    let runs = 0;
    const plain = new PrismaClient({ adapter: new PrismaPg(pool) });
    const other = clientOn(openPool(fresh.url));
    for (const client of [plain, other]) {
      const run = setUp(client)("elsewhere", async () => {
        runs += 1;
      });
      await expect(run).rejects.toThrow(/new PrismaPg\(prismaPool\(pool\)\)/);
      await client.$disconnect();
    }
    expect(runs).toBe(0);
    await expectNoLeak(pool);
  });

  test("what is no PrismaClient, and no pool, is refused", () => {
    for (const client of [{}, undefined, { $extends() {} }]) {
      expect(() => prismaTransactions({ prisma: client as PrismaDatabase, pool })).toThrow(TypeError);
    }
    expect(() => prismaTransactions({ prisma, pool: {} as pg.Pool })).toThrow(TypeError);
    expect(() => prismaTransactions({ prisma, pool, connectTimeoutMs: 0 })).toThrow(TypeError);
    expect(() => prismaPool({} as pg.Pool)).toThrow(TypeError);
  });

  test("prismaPool is the pool: its class, its events, its queries, and either of both may be given", async () => {
    const own = prismaPool(pool);
    expectTypeOf(own).toEqualTypeOf<pg.Pool>();
    expect(own).toBeInstanceOf(pg.Pool);
    expect((await own.query("select 1 as one")).rows).toEqual([{ one: 1 }]);
    const client = await own.connect();
    client.release();
    const store = postgresStore({ pool, transactions: prismaTransactions({ prisma, pool: own }) });
    const latchkey = createLatchkey({ store });
    const operation = latchkey.operation("either");
    const run = latchkey.run(operation, { tenant: "t", key: "k", input: 0 }, ({ tx }) => tx.order.count());
    expect(await run).toMatchObject({ kind: "executed" });
  });
});
