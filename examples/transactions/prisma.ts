/**
 * An order and its stock in one transaction of Prisma's, sent twice as a client does that lost the first answer.
 * DATABASE_URL=postgres://… npm run prisma -w latchkey-example-transactions
 */
import { PrismaPg } from "@prisma/adapter-pg";
import { createLatchkey } from "latchkey";
import { migratePostgres, postgresStore } from "latchkey/postgres";
import { prismaPool, prismaTransactions } from "latchkey/prisma";
import pg from "pg";
import { type Prisma, PrismaClient } from "./prisma/generated/client.ts";

const connectionString = process.env.DATABASE_URL;
if (connectionString === undefined) throw new TypeError("Set DATABASE_URL to a Postgres");
const pool = new pg.Pool({ connectionString, connectionTimeoutMillis: 3_000 });
pool.on("error", console.error);

const prisma = new PrismaClient({ adapter: new PrismaPg(prismaPool(pool)) });
const store = postgresStore({ pool, transactions: prismaTransactions({ prisma, pool }) });
const latchkey = createLatchkey({ store });
const placeOrder = latchkey.operation("orders.place");

/** Business code that knows nothing of Latchkey. */
async function takeFromStock(tx: Prisma.TransactionClient, item: string): Promise<number> {
  const { left } = await tx.stock.update({ where: { item }, data: { left: { decrement: 1 } } });
  return left;
}

function order(key: string, item: string) {
  return latchkey.run(placeOrder, { tenant: "shop", key, input: { item } }, async ({ tx }) => {
    const { id } = await tx.order.create({ data: { item } });
    return { id, left: await takeFromStock(tx, item) };
  });
}

await migratePostgres(pool);
await pool.query(`
  create table if not exists orders (id int generated always as identity primary key, item text not null);
  create table if not exists stock (item text primary key, "left" int not null);
  insert into stock values ('book', 10) on conflict do nothing`);

const key = process.env.KEY ?? crypto.randomUUID();
for (const name of ["first", "retry"]) {
  const answer = await order(key, "book");
  console.log(`${name}: ${answer.kind} ${JSON.stringify("value" in answer ? answer.value : null)}`);
}
console.log(`orders: ${await prisma.order.count()}`);

await latchkey.close();
await prisma.$disconnect();
await pool.end();
