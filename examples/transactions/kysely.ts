/**
 * An order and its stock in one transaction of Kysely's, sent twice as a client does that lost the first answer.
 * DATABASE_URL=postgres://… npm run kysely -w latchkey-example-transactions
 */
import { type Generated, Kysely, PostgresDialect, sql, type Transaction } from "kysely";
import { createLatchkey } from "latchkey";
import { kyselyTransactions } from "latchkey/kysely";
import { migratePostgres, postgresStore } from "latchkey/postgres";
import pg from "pg";

interface Database {
  orders: { id: Generated<number>; item: string };
  stock: { item: string; left: number };
}

const connectionString = process.env.DATABASE_URL;
if (connectionString === undefined) throw new TypeError("Set DATABASE_URL to a Postgres");
const pool = new pg.Pool({ connectionString, connectionTimeoutMillis: 3_000 });
pool.on("error", console.error);

const db = new Kysely<Database>({ dialect: new PostgresDialect({ pool }) });
const store = postgresStore({ pool, transactions: kyselyTransactions({ db, pool }) });
const latchkey = createLatchkey({ store });
const placeOrder = latchkey.operation("orders.place");

/** Business code that knows nothing of Latchkey. */
async function takeFromStock(tx: Transaction<Database>, item: string): Promise<number> {
  const { left } = await tx
    .updateTable("stock")
    .set({ left: sql<number>`"left" - 1` })
    .where("item", "=", item)
    .returning("left")
    .executeTakeFirstOrThrow();
  return left;
}

function order(key: string, item: string) {
  return latchkey.run(placeOrder, { tenant: "shop", key, input: { item } }, async ({ tx }) => {
    const { id } = await tx.insertInto("orders").values({ item }).returning("id").executeTakeFirstOrThrow();
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
const { orders } = await db
  .selectFrom("orders")
  .select(({ fn }) => fn.countAll<string>().as("orders"))
  .executeTakeFirstOrThrow();
console.log(`orders: ${orders}`);

await latchkey.close();
await db.destroy();
