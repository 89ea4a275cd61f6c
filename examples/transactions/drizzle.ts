/**
 * An order and its stock in one transaction of Drizzle's, sent twice as a client does that lost the first answer.
 * DATABASE_URL=postgres://… npm run drizzle -w latchkey-example-transactions
 */
import { type ExtractTablesWithRelations, eq, sql } from "drizzle-orm";
import { drizzle, type NodePgQueryResultHKT } from "drizzle-orm/node-postgres";
import { integer, type PgDatabase, pgTable, text } from "drizzle-orm/pg-core";
import { createLatchkey } from "latchkey";
import { drizzleTransactions } from "latchkey/drizzle";
import { migratePostgres, postgresStore } from "latchkey/postgres";
import pg from "pg";

const orders = pgTable("orders", {
  id: integer().primaryKey().generatedAlwaysAsIdentity(),
  item: text().notNull(),
});
const stock = pgTable("stock", { item: text().primaryKey(), left: integer().notNull() });

const connectionString = process.env.DATABASE_URL;
if (connectionString === undefined) throw new TypeError("Set DATABASE_URL to a Postgres");
const pool = new pg.Pool({ connectionString, connectionTimeoutMillis: 3_000 });
pool.on("error", console.error);

const db = drizzle(pool, { schema: { orders, stock } });
const store = postgresStore({ pool, transactions: drizzleTransactions({ db }) });
const latchkey = createLatchkey({ store });
const placeOrder = latchkey.operation("orders.place");

type Schema = { readonly orders: typeof orders; readonly stock: typeof stock };
/** A database of Drizzle's, or a transaction on it. */
type Db = PgDatabase<NodePgQueryResultHKT, Schema, ExtractTablesWithRelations<Schema>>;

/** Business code without any knowledge of Latchkey. */
async function takeFromStock(tx: Db, item: string): Promise<number> {
  const [row] = await tx
    .update(stock)
    .set({ left: sql`${stock.left} - 1` })
    .where(eq(stock.item, item))
    .returning();
  if (row === undefined) throw new Error(`There is no ${item}`);
  return row.left;
}

function order(key: string, item: string) {
  return latchkey.run(placeOrder, { tenant: "shop", key, input: { item } }, async ({ tx }) => {
    const [row] = await tx.insert(orders).values({ item }).returning();
    return { id: row?.id, left: await takeFromStock(tx, item) };
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
console.log(`orders: ${await db.$count(orders)}`);

await latchkey.close();
await pool.end();
