/**
 * Every database client that has a bridge, as tests over all of them need it: opened on a pool's settings, speaking SQL, with a
 * transaction of its own beside Latchkey's. A new client is one entry here.
 */
import { randomUUID } from "node:crypto";
import { MikroORM } from "@mikro-orm/postgresql";
import { PrismaPg } from "@prisma/adapter-pg";
import { sql as drizzleSql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import makeKnex, { type Knex } from "knex";
import { CompiledQuery, Kysely, PostgresDialect } from "kysely";
import { Model, transaction } from "objection";
import type pg from "pg";
import postgres from "postgres";
import { Sequelize, type Transaction } from "sequelize";
import { DataSource } from "typeorm";
import { PrismaClient } from "../../examples/transactions/prisma/generated/client.ts";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import { drizzleTransactions } from "../../packages/latchkey/src/sql/drizzle.ts";
import { knexTransactions } from "../../packages/latchkey/src/sql/knex.ts";
import { kyselyTransactions } from "../../packages/latchkey/src/sql/kysely.ts";
import { mikroOrmPool, mikroOrmTransactions } from "../../packages/latchkey/src/sql/mikro-orm.ts";
import { type PgPool, pgTransactions } from "../../packages/latchkey/src/sql/pg.ts";
import { postgresJsTransactions } from "../../packages/latchkey/src/sql/postgres-js.ts";
import { prismaPool, prismaTransactions } from "../../packages/latchkey/src/sql/prisma.ts";
import { sequelizePool, sequelizeTransactions } from "../../packages/latchkey/src/sql/sequelize.ts";
import type { TransactionBridge } from "../../packages/latchkey/src/sql/transaction.ts";
import { typeormPool, typeormTransactions } from "../../packages/latchkey/src/sql/typeorm.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { onRelease } from "../support/resources.ts";

/** Runs one statement; its values are those of `$1` and so on, in this order. */
export type Say = (text: string, ...values: string[]) => Promise<unknown>;

export interface OpenClient {
  /** Runs one handler under Latchkey, through the client's bridge. */
  handle(key: string, work: (say: Say) => Promise<unknown>): Promise<unknown>;
  /** The client's own transaction, as its documentation shows it, without Latchkey. */
  alone<T>(work: (say: Say) => Promise<T>): Promise<T>;
}

export interface DatabaseClient {
  /** Of `latchkey/<module>`; its example is `examples/transactions/<module>.ts`. */
  readonly module: string;
  /** What the client alone reports of a transaction that Postgres rolled back after a swallowed error. */
  readonly reports: "success" | "failure";
  /** Whether it sends through the pool that it is given, and so in that pool's pipeline mode. */
  readonly onGivenPool: boolean;
  /** Everything is closed with the test file, but for the pool. */
  open(pool: pg.Pool): OpenClient | Promise<OpenClient>;
}

class Business extends Model {
  static override tableName = "business";
}

export const clients = {
  pg: {
    module: "pg",
    reports: "success",
    onGivenPool: true,
    open: (pool) => ({
      async alone(work) {
        const client = await pool.connect();
        try {
          await client.query("begin");
          const value = await work((text, ...values) => client.query(text, values));
          await client.query("commit");
          return value;
        } catch (error) {
          await client.query("rollback");
          throw error;
        } finally {
          client.release();
        }
      },
      handle: through(
        pool,
        pgTransactions({ pool }),
        (tx) =>
          async (text, ...values) =>
            (await tx.query(text, values)).rows,
      ),
    }),
  },
  Drizzle: {
    module: "drizzle",
    reports: "success",
    onGivenPool: true,
    open(pool) {
      const db = drizzle(pool);
      type Speaker = Pick<typeof db, "execute">;
      const say =
        (tx: Speaker): Say =>
        async (text, ...values) => {
          const [first = "", ...rest] = text.split(/\$\d/u);
          const query = drizzleSql.raw(first);
          for (const [index, piece] of rest.entries())
            query.append(drizzleSql`${values[index]}`).append(drizzleSql.raw(piece));
          return (await tx.execute(query)).rows;
        };
      return {
        alone: (work) => db.transaction((tx) => work(say(tx))),
        handle: through(pool, drizzleTransactions({ db }), say),
      };
    },
  },
  Knex: {
    module: "knex",
    reports: "success",
    onGivenPool: true,
    open(connectionPool) {
      const knex = makeKnex({ client: "pg", connectionPool });
      return {
        alone: (work) => knex.transaction((tx) => work(sayThroughKnex(tx))),
        handle: through(connectionPool, knexTransactions({ knex }), sayThroughKnex),
      };
    },
  },
  Objection: {
    module: "knex",
    reports: "success",
    onGivenPool: true,
    open(connectionPool) {
      const knex = makeKnex({ client: "pg", connectionPool });
      const say = (tx: Knex.Transaction) => sayThroughKnex(Business.bindTransaction(tx).knex());
      return {
        alone: (work) => transaction(knex, (tx) => work(say(tx))),
        handle: through(connectionPool, knexTransactions({ knex }), say),
      };
    },
  },
  Kysely: {
    module: "kysely",
    reports: "failure",
    onGivenPool: true,
    open(pool) {
      const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) });
      const say =
        (tx: Pick<Kysely<unknown>, "executeQuery">): Say =>
        async (text, ...values) =>
          (await tx.executeQuery(CompiledQuery.raw(text, values))).rows;
      return {
        alone: (work) => db.transaction().execute((tx) => work(say(tx))),
        handle: through(pool, kyselyTransactions({ db, pool }), say),
      };
    },
  },
  MikroORM: {
    module: "mikro-orm",
    reports: "success",
    onGivenPool: true,
    async open(pool) {
      const { connectionString: clientUrl = "", ...driverOptions } = pool.options;
      const orm = await MikroORM.init({ clientUrl, driverOptions, discovery: { warnWhenNoEntities: false } });
      onRelease(() => orm.close());
      const own = await mikroOrmPool(orm);
      const say =
        (tx: Pick<typeof orm.em, "execute">): Say =>
        (text, ...values) =>
          tx.execute(text.replace(/\$\d/gu, "?"), values);
      return {
        alone: (work) => orm.em.fork().transactional((tx) => work(say(tx))),
        handle: through(own, mikroOrmTransactions({ orm, pool: own }), say),
      };
    },
  },
  "postgres.js": {
    module: "postgres-js",
    reports: "failure",
    onGivenPool: false,
    open: (pool) =>
      openPostgresJs(
        pool,
        (tx) =>
          async (text, ...values) =>
            tx.unsafe(text, values),
      ),
  },
  "postgres.js, with a cursor": {
    module: "postgres-js",
    reports: "success",
    onGivenPool: false,
    open: (pool) =>
      openPostgresJs(pool, (tx) => async (text, ...values) => {
        for await (const _ of tx.unsafe(text, values).cursor());
      }),
  },
  Prisma: {
    module: "prisma",
    reports: "success",
    onGivenPool: true,
    open(pool) {
      const prisma = new PrismaClient({ adapter: new PrismaPg(prismaPool(pool)) });
      type Speaker = Pick<typeof prisma, "$executeRawUnsafe">;
      // As a statement without rows: Prisma cannot read a result of type void.
      const say =
        (tx: Speaker): Say =>
        (text, ...values) =>
          tx.$executeRawUnsafe(text, ...values);
      return {
        alone: (work) => prisma.$transaction((tx) => work(say(tx))),
        handle: through(pool, prismaTransactions({ prisma, pool }), say),
      };
    },
  },
  Sequelize: {
    module: "sequelize",
    reports: "success",
    onGivenPool: false,
    open(pool) {
      const { connectionString = "", options = "", max = 2, connectionTimeoutMillis } = pool.options;
      const dialectOptions = { options, connectionTimeoutMillis };
      const settings = { logging: false, pool: { max }, dialectOptions } as const;
      const sequelize = new Sequelize(connectionString, settings);
      onRelease(() => sequelize.close());
      const say =
        (transaction: Transaction): Say =>
        async (text, ...bind) => {
          const [rows] = await sequelize.query(text, { transaction, ...(bind.length > 0 && { bind }) });
          return rows;
        };
      return {
        alone: (work) => sequelize.transaction((tx) => work(say(tx))),
        handle: through(sequelizePool(sequelize), sequelizeTransactions({ sequelize }), say),
      };
    },
  },
  TypeORM: {
    module: "typeorm",
    reports: "success",
    onGivenPool: false,
    async open(pool) {
      const dataSource = await new DataSource({ type: "postgres", extra: pool.options }).initialize();
      onRelease(() => dataSource.destroy());
      const say =
        (tx: Pick<typeof dataSource.manager, "query">): Say =>
        (text, ...values) =>
          tx.query(text, values);
      return {
        alone: (work) => dataSource.transaction((tx) => work(say(tx))),
        handle: through(typeormPool(dataSource), typeormTransactions({ dataSource }), say),
      };
    },
  },
} as const satisfies Readonly<Record<string, DatabaseClient>>;

function sayThroughKnex(tx: Knex): Say {
  return async (text, ...values) => (await tx.raw(text.replace(/\$\d/gu, "?"), values)).rows;
}

function openPostgresJs(pool: pg.Pool, say: (tx: postgres.TransactionSql) => Say): OpenClient {
  const { connectionString = "", options = "", max = 2, connectionTimeoutMillis = 30_000 } = pool.options;
  const connect_timeout = connectionTimeoutMillis / 1_000;
  const sql = postgres(connectionString, {
    max,
    connect_timeout,
    connection: { options },
    onnotice: () => {},
  });
  onRelease(() => sql.end({ timeout: 0 }));
  return {
    alone: async <T>(work: (said: Say) => Promise<T>) => (await sql.begin((tx) => work(say(tx)))) as T,
    handle: through(pool, postgresJsTransactions({ sql }), say),
  };
}

/** A latchkey of its own, so that one client's keys are not another's. */
function through<Tx>(
  pool: PgPool,
  transactions: TransactionBridge<Tx>,
  say: (tx: Tx) => Say,
): OpenClient["handle"] {
  const latchkey = createLatchkey({ store: postgresStore({ pool, transactions }) });
  const tenant = randomUUID();
  const order = latchkey.operation("orders");
  return (key, work) => latchkey.run(order, { tenant, key, input: key }, ({ tx }) => work(say(tx)));
}
