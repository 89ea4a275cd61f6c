/**
 * A handler that swallows a SQL error: Postgres answers COMMIT with ROLLBACK. What each client reports of such a
 * transaction of its own, and what Latchkey reports of the same one through that client's bridge.
 */
import { MikroORM } from "@mikro-orm/postgresql";
import { PrismaPg } from "@prisma/adapter-pg";
import { sql as drizzleSql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import makeKnex, { type Knex } from "knex";
import { Kysely, PostgresDialect, sql } from "kysely";
import { Model, transaction } from "objection";
import type pg from "pg";
import postgres from "postgres";
import { Sequelize, type Transaction } from "sequelize";
import { type CommonQueryMethods, createPool, sql as slonikSql } from "slonik";
import { DataSource } from "typeorm";
import { beforeAll, describe, expect, test } from "vitest";
import { PrismaClient } from "../../examples/transactions/prisma/generated/client.ts";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import { drizzleTransactions } from "../../packages/latchkey/src/sql/drizzle.ts";
import { knexTransactions } from "../../packages/latchkey/src/sql/knex.ts";
import { kyselyTransactions } from "../../packages/latchkey/src/sql/kysely.ts";
import { mikroOrmTransactions } from "../../packages/latchkey/src/sql/mikro-orm.ts";
import { pgTransactions } from "../../packages/latchkey/src/sql/pg.ts";
import { postgresJsTransactions } from "../../packages/latchkey/src/sql/postgres-js.ts";
import { prismaPool, prismaTransactions } from "../../packages/latchkey/src/sql/prisma.ts";
import { sequelizeTransactions } from "../../packages/latchkey/src/sql/sequelize.ts";
import type { TransactionBridge } from "../../packages/latchkey/src/sql/transaction.ts";
import { typeormTransactions } from "../../packages/latchkey/src/sql/typeorm.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { onRelease } from "../support/resources.ts";
import { committedRows, migratedDatabase, openPool } from "./harness.ts";

/** Runs one statement without parameters. */
type Run = (text: string) => Promise<unknown>;
type Work = (run: Run) => Promise<string>;

interface Client {
  /** What the client alone makes of it. */
  readonly reports: "success" | "failure";
  /** Whether there is a bridge of Latchkey's for it. Default: there is. */
  readonly bridge?: "none";
  open(pool: pg.Pool, url: string): Opened | Promise<Opened>;
}

interface Opened {
  /** The client's own transaction, as its documentation shows it. */
  transaction(work: Work): Promise<string>;
  /** One handler under Latchkey, through the bridge. */
  handle(work: Work): Promise<unknown>;
}

class Business extends Model {
  static override tableName = "business";
}

const clients: Readonly<Record<string, Client>> = {
  pg: {
    reports: "success",
    open: (pool) => ({
      async transaction(work) {
        const client = await pool.connect();
        try {
          await client.query("begin");
          const value = await work((text) => client.query(text));
          await client.query("commit");
          return value;
        } catch (error) {
          await client.query("rollback");
          throw error;
        } finally {
          client.release();
        }
      },
      handle: through(pool, pgTransactions({ pool }), (tx) => (text) => tx.query(text)),
    }),
  },
  Drizzle: {
    reports: "success",
    open(pool) {
      const db = drizzle(pool);
      return {
        transaction: (work) => db.transaction((tx) => work((text) => tx.execute(drizzleSql.raw(text)))),
        handle: through(
          pool,
          drizzleTransactions({ db }),
          (tx) => (text) => tx.execute(drizzleSql.raw(text)),
        ),
      };
    },
  },
  Knex: {
    reports: "success",
    open(connectionPool) {
      const knex = makeKnex({ client: "pg", connectionPool });
      return {
        transaction: (work) => knex.transaction((tx) => work((text) => tx.raw(text))),
        handle: through(connectionPool, knexTransactions({ knex }), (tx) => async (text) => tx.raw(text)),
      };
    },
  },
  Objection: {
    reports: "success",
    open(connectionPool) {
      const knex = makeKnex({ client: "pg", connectionPool });
      const runOf = (tx: Knex.Transaction) => async (text: string) =>
        Business.bindTransaction(tx).knex().raw(text);
      return {
        transaction: (work) => transaction(knex, (tx) => work(runOf(tx))),
        handle: through(connectionPool, knexTransactions({ knex }), runOf),
      };
    },
  },
  Sequelize: {
    reports: "success",
    open(pool, url) {
      const sequelize = new Sequelize(url, { logging: false });
      onRelease(() => sequelize.close());
      const runOf = (transaction: Transaction) => (text: string) => sequelize.query(text, { transaction });
      return {
        transaction: (work) => sequelize.transaction((transaction) => work(runOf(transaction))),
        handle: through(pool, sequelizeTransactions({ sequelize }), runOf),
      };
    },
  },
  MikroORM: {
    reports: "success",
    async open(pool, clientUrl) {
      const orm = await MikroORM.init({ clientUrl, discovery: { warnWhenNoEntities: false } });
      onRelease(() => orm.close());
      return {
        transaction: (work) => orm.em.fork().transactional((tx) => work((text) => tx.execute(text))),
        handle: through(pool, mikroOrmTransactions({ orm, pool }), (tx) => (text) => tx.execute(text)),
      };
    },
  },
  "postgres.js": {
    reports: "failure",
    open: (pool, url) => throughPostgresJs(pool, url, (tx) => (text) => tx.unsafe(text)),
  },
  "postgres.js, the error from a cursor": {
    reports: "success",
    open: (pool, url) =>
      throughPostgresJs(pool, url, (tx) => async (text) => {
        for await (const _ of tx.unsafe(text).cursor());
      }),
  },
  Slonik: {
    reports: "success",
    bridge: "none",
    async open(_, url) {
      const slonik = await createPool(url);
      onRelease(() => slonik.end());
      const run: (tx: CommonQueryMethods) => Run = (tx) => (text) =>
        tx.query({ ...slonikSql.unsafe``, sql: text });
      const none = () => Promise.reject(new Error("Latchkey has no bridge for Slonik"));
      return { transaction: (work) => slonik.transaction((tx) => work(run(tx))), handle: none };
    },
  },
  TypeORM: {
    reports: "success",
    async open(pool, url) {
      const dataSource = await new DataSource({ type: "postgres", url }).initialize();
      onRelease(() => dataSource.destroy());
      return {
        transaction: (work) => dataSource.transaction((tx) => work((text) => tx.query(text))),
        handle: through(pool, typeormTransactions({ dataSource }), (tx) => (text) => tx.query(text)),
      };
    },
  },
  Kysely: {
    reports: "failure",
    open(pool) {
      const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) });
      return {
        transaction: (work) => db.transaction().execute((tx) => work((text) => sql.raw(text).execute(tx))),
        handle: through(pool, kyselyTransactions({ db, pool }), (tx) => (text) => sql.raw(text).execute(tx)),
      };
    },
  },
  Prisma: {
    reports: "success",
    open(pool) {
      const prisma = new PrismaClient({ adapter: new PrismaPg(prismaPool(pool)) });
      return {
        transaction: (work) => prisma.$transaction((tx) => work((text) => tx.$executeRawUnsafe(text))),
        handle: through(
          pool,
          prismaTransactions({ prisma, pool }),
          (tx) => (text) => tx.$executeRawUnsafe(text),
        ),
      };
    },
  },
};

function throughPostgresJs(pool: pg.Pool, url: string, runOf: (tx: postgres.TransactionSql) => Run): Opened {
  const sql = postgres(url, { max: 3 });
  onRelease(() => sql.end({ timeout: 0 }));
  return {
    transaction: (work) => sql.begin((tx) => work(runOf(tx))),
    handle: through(pool, postgresJsTransactions({ sql }), runOf),
  };
}

function through<Tx>(
  pool: pg.Pool,
  transactions: TransactionBridge<Tx>,
  runOf: (tx: Tx) => Run,
): Opened["handle"] {
  const latchkey = createLatchkey({ store: postgresStore({ pool, transactions }) });
  const operation = latchkey.operation(`orders through ${transactions.name}`);
  return (work) => latchkey.run(operation, { tenant: "t", key: "k", input: 0 }, ({ tx }) => work(runOf(tx)));
}

const swallowing =
  (row: string): Work =>
  async (run) => {
    await run(`insert into business values ('${row}')`);
    await run("select 1 / 0").catch(() => {});
    return "paid";
  };

describe.each(Object.entries(clients))(
  "a swallowed SQL error through %s",
  (name, { reports, bridge, open }) => {
    let pool: pg.Pool;
    let client: Opened;
    beforeAll(async () => {
      const url = await migratedDatabase();
      pool = openPool(url, { max: 3 });
      client = await open(pool, url);
    });

    test(`the client alone reports ${reports}, and nothing is written`, async () => {
      const run = client.transaction(swallowing(`${name} alone`));
      await (reports === "success" ? expect(run).resolves.toBe("paid") : expect(run).rejects.toThrow());
      expect(await committedRows(pool)).toEqual([]);
    });

    test("a last statement of one's own makes the client alone report the failure", async () => {
      const run = client.transaction(async (send) => {
        const value = await swallowing(name)(send);
        await send("select 1");
        return value;
      });
      await expect(run).rejects.toThrow();
      expect(await committedRows(pool)).toEqual([]);
    });

    if (bridge === "none") return;
    test("Latchkey reports the failure, nothing is written, and the key is free", async () => {
      await expect(client.handle(swallowing(name))).rejects.toMatchObject({ code: "transaction-aborted" });
      expect(await committedRows(pool)).toEqual([]);
      const retry = await client.handle(async (run) => {
        await run(`insert into business values ('${name}')`);
        return "paid";
      });
      expect(retry).toMatchObject({ kind: "executed", value: "paid" });
      expect(await committedRows(pool)).toEqual([name]);
    });
  },
);
