/** Roles, search paths and refused ends in `pg`'s pipeline mode, through Drizzle, Knex, Kysely, MikroORM, postgres.js, Prisma, Sequelize and TypeORM; `settings.test.ts` has them on `pg`. */
import { randomUUID } from "node:crypto";
import { MikroORM } from "@mikro-orm/postgresql";
import { PrismaPg } from "@prisma/adapter-pg";
import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import makeKnex from "knex";
import { CompiledQuery, Kysely, PostgresDialect } from "kysely";
import type pg from "pg";
import postgres from "postgres";
import { Sequelize } from "sequelize";
import { DataSource } from "typeorm";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
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
import { postgresVersions } from "../support/shared-postgres.ts";
import { openPool } from "./harness.ts";
import { type SettingsDatabase, settingsDatabase } from "./settings-arrange.ts";

type Say = (text: string, ...values: string[]) => Promise<unknown>;

type Way =
  | "pg"
  | "Drizzle"
  | "Knex"
  | "Kysely"
  | "MikroORM"
  | "postgres.js"
  | "Prisma"
  | "Sequelize"
  | "TypeORM";

/** A service whose handlers speak through `say`. */
async function through(pool: pg.Pool, way: Way) {
  switch (way) {
    case "pg":
      return serviceOf(pool, pgTransactions({ pool }), (tx) => async (text, ...values) => {
        return (await tx.query(text, values)).rows;
      });
    case "Drizzle":
      return serviceOf(pool, drizzleTransactions({ db: drizzle(pool) }), (tx) => async (text, ...values) => {
        const [first = "", ...rest] = text.split(/\$\d/u);
        const query = sql.raw(first);
        for (const [index, piece] of rest.entries())
          query.append(sql`${values[index]}`).append(sql.raw(piece));
        return (await tx.execute(query)).rows;
      });
    case "Knex": {
      const knex = makeKnex({ client: "pg", connectionPool: pool });
      return serviceOf(pool, knexTransactions({ knex }), (tx) => async (text, ...values) => {
        return (await tx.raw(text.replace(/\$\d/gu, "?"), values)).rows;
      });
    }
    case "Kysely": {
      const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) });
      return serviceOf(pool, kyselyTransactions({ db, pool }), (tx) => async (text, ...values) => {
        return (await tx.executeQuery<Record<string, unknown>>(CompiledQuery.raw(text, values))).rows;
      });
    }
    case "MikroORM": {
      const { connectionString: clientUrl = "", ...driverOptions } = pool.options;
      const orm = await MikroORM.init({ clientUrl, driverOptions, discovery: { warnWhenNoEntities: false } });
      onRelease(() => orm.close());
      const own = await mikroOrmPool(orm);
      return serviceOf(own, mikroOrmTransactions({ orm, pool: own }), (tx) => (text, ...values) => {
        return tx.execute(text.replace(/\$\d/gu, "?"), values);
      });
    }
    case "postgres.js": {
      const { connectionString = "", options = "", max = 2 } = pool.options;
      const sql = postgres(connectionString, { max, connection: { options }, onnotice: () => {} });
      onRelease(() => sql.end({ timeout: 0 }));
      return serviceOf(pool, postgresJsTransactions({ sql }), (tx) => async (text, ...values) => {
        return tx.unsafe(text, values);
      });
    }
    case "Prisma": {
      const prisma = new PrismaClient({ adapter: new PrismaPg(prismaPool(pool)) });
      return serviceOf(pool, prismaTransactions({ prisma, pool }), (tx) => async (text, ...values) => {
        // Prisma cannot read a result of type void.
        await tx.$executeRawUnsafe(text, ...values);
      });
    }
    case "Sequelize": {
      const { connectionString = "", options = "", max = 2 } = pool.options;
      const sequelize = new Sequelize(connectionString, {
        logging: false,
        pool: { max },
        dialectOptions: { options },
      });
      onRelease(() => sequelize.close());
      const transactions = sequelizeTransactions({ sequelize });
      return serviceOf(sequelizePool(sequelize), transactions, (transaction) => async (text, ...bind) => {
        const [rows] = await sequelize.query(text, { transaction, ...(bind.length > 0 && { bind }) });
        return rows as Record<string, unknown>[];
      });
    }
    case "TypeORM": {
      const dataSource = await new DataSource({ type: "postgres", extra: pool.options }).initialize();
      onRelease(() => dataSource.destroy());
      const transactions = typeormTransactions({ dataSource });
      return serviceOf(typeormPool(dataSource), transactions, (tx) => (text, ...values) => {
        return tx.query(text, values);
      });
    }
    default:
      return way satisfies never;
  }
}

function serviceOf<Tx>(pool: PgPool, transactions: TransactionBridge<Tx>, sayThrough: (tx: Tx) => Say) {
  const tenant = randomUUID();
  const latchkey = createLatchkey({ store: postgresStore({ pool, transactions }) });
  const order = latchkey.operation("orders");
  return (key: string, act: (say: Say) => Promise<unknown>) =>
    latchkey.run(order, { tenant, key, input: key }, async ({ tx }) => {
      await act(sayThrough(tx));
      return { key };
    });
}

const ways: Readonly<Record<string, { readonly pipeline: boolean; readonly way: Way }>> = {
  "pg in pipeline mode": { pipeline: true, way: "pg" },
  Drizzle: { pipeline: false, way: "Drizzle" },
  "Drizzle on a pool in pipeline mode": { pipeline: true, way: "Drizzle" },
  Knex: { pipeline: false, way: "Knex" },
  "Knex on a pool in pipeline mode": { pipeline: true, way: "Knex" },
  Kysely: { pipeline: false, way: "Kysely" },
  "Kysely on a pool in pipeline mode": { pipeline: true, way: "Kysely" },
  MikroORM: { pipeline: false, way: "MikroORM" },
  "MikroORM on a pool in pipeline mode": { pipeline: true, way: "MikroORM" },
  "postgres.js": { pipeline: false, way: "postgres.js" },
  Prisma: { pipeline: false, way: "Prisma" },
  "Prisma on a pool in pipeline mode": { pipeline: true, way: "Prisma" },
  Sequelize: { pipeline: false, way: "Sequelize" },
  TypeORM: { pipeline: false, way: "TypeORM" },
};

describe.each(postgresVersions().slice(-1))("settings on PostgreSQL %i", (version) => {
  let database: SettingsDatabase;
  beforeAll(async () => {
    database = await settingsDatabase(version);
    await database.admin.query(`
      do $$ begin
        if not exists (select from pg_roles where rolname = 'settings_way') then create role settings_way; end if;
      end $$;
      create function become_way() returns void language sql as 'select set_config(''role'', ''settings_way'', true)';
      create table items (code int);
      create schema tenant_text;
      create table tenant_text.items (code text);
    `);
  });
  afterAll(async () => {
    await database?.admin.query("drop owned by settings_way").catch(() => {});
  });

  describe.each(Object.entries(ways))("through %s", (_, { pipeline, way }) => {
    async function withService(
      config: pg.PoolConfig,
      work: (order: Awaited<ReturnType<typeof through>>) => Promise<unknown>,
    ): Promise<void> {
      const pool = openPool(database.url, { max: 2, pipeline, ...config });
      await work(await through(pool, way));
      await pool.end();
    }

    test.each([
      "set local role settings_way",
      "set role settings_way",
      "select become_way()",
      "set local session authorization settings_way",
      "set local search_path = nowhere",
      "set local search_path = hostile_operators, pg_catalog, public",
      "select set_config('search_path', 'hostile_functions, pg_catalog, public', true)",
    ])("a handler: %s", async (text) => {
      await withService({}, async (order) => {
        for (const kind of ["executed", "replay"]) {
          expect(await order("k", (say) => say(text))).toMatchObject({ kind, value: { key: "k" } });
        }
        expect(
          await order("next", (say) => say("insert into public.business values ('next')")),
        ).toMatchObject({
          kind: "executed",
        });
      });
    });

    test.each([
      ["search_path=hostile_operators,pg_catalog,public", "search_path"],
      ["default_transaction_read_only=on", "default_transaction_read_only"],
    ])("a session with %s is refused before the handler", async (setting, named) => {
      let runs = 0;
      await withService({ options: `-c ${setting}` }, async (order) => {
        const refusal = { code: expect.stringMatching(/^store-/), message: expect.stringContaining(named) };
        const run = order("k", async () => {
          runs += 1;
        });
        await expect(run).rejects.toMatchObject(refusal);
      });
      expect(runs).toBe(0);
    });

    test("a value never passes through another tenant's type", async () => {
      await withService({ max: 1 }, async (order) => {
        const insert = "insert into items (code) values ($1)";
        for (let count = 0; count < 7; count++) await order(`public ${count}`, (say) => say(insert, "007"));
        await order("tenant", async (say) => {
          await say("set local search_path = tenant_text");
          await say(insert, "007");
        });
        const { rows } = await database.admin.query("delete from tenant_text.items returning code");
        expect(rows).toEqual([{ code: "007" }]);
      });
    });

    test("an end that the server refuses: the store is unavailable, and the key is free", async () => {
      await withService({ options: "-c lock_timeout=300ms" }, async (order) => {
        await order("warm", (say) => say("select 1"));
        const blocker = await database.admin.connect();
        const refused = order("k", async (say) => {
          await say("insert into public.business values ('refused')");
          await blocker.query("begin; lock table latchkey.records in share mode");
        });
        await expect(refused).rejects.toMatchObject({
          code: "store-unavailable",
          certainty: "rolled_back",
          message: expect.stringContaining("55P03"),
        });
        await blocker.query("rollback");
        blocker.release();
        expect(await order("k", (say) => say("select 1"))).toMatchObject({ kind: "executed" });
      });
      const { rows } = await database.admin.query("select from business where row = 'refused'");
      expect(rows).toEqual([]);
    });
  });
});
