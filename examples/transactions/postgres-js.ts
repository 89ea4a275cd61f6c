/**
 * An order and its stock in one transaction of postgres.js, sent twice as a client does that lost the first answer.
 * DATABASE_URL=postgres://… npm run postgres-js -w latchkey-example-transactions
 */
import { createLatchkey } from "latchkey";
import { migratePostgres, postgresStore } from "latchkey/postgres";
import { postgresJsTransactions } from "latchkey/postgres-js";
import pg from "pg";
import postgres from "postgres";

const connectionString = process.env.DATABASE_URL;
if (connectionString === undefined) throw new TypeError("Set DATABASE_URL to a Postgres");
const sql = postgres(connectionString, { connect_timeout: 3, onnotice: () => {} });
const pool = new pg.Pool({ connectionString, max: 4, connectionTimeoutMillis: 3_000 });
pool.on("error", console.error);

const store = postgresStore({ pool, transactions: postgresJsTransactions({ sql }) });
const latchkey = createLatchkey({ store });
const placeOrder = latchkey.operation("orders.place");

/** Business code that knows nothing of Latchkey. */
async function takeFromStock(tx: postgres.ISql, item: string): Promise<number> {
  const [row] = await tx`update stock set "left" = "left" - 1 where item = ${item} returning "left"`;
  return row?.left;
}

function order(key: string, item: string) {
  return latchkey.run(placeOrder, { tenant: "shop", key, input: { item } }, async ({ tx }) => {
    const [row] = await tx`insert into orders ${tx({ item })} returning id`;
    return { id: row?.id, left: await takeFromStock(tx, item) };
  });
}

await migratePostgres(pool);
await sql.unsafe(`
  create table if not exists orders (id int generated always as identity primary key, item text not null);
  create table if not exists stock (item text primary key, "left" int not null);
  insert into stock values ('book', 10) on conflict do nothing`);

const key = process.env.KEY ?? crypto.randomUUID();
for (const name of ["first", "retry"]) {
  const answer = await order(key, "book");
  console.log(`${name}: ${answer.kind} ${JSON.stringify("value" in answer ? answer.value : null)}`);
}
const [count] = await sql`select count(*) as orders from orders`;
console.log(`orders: ${count?.orders}`);

await latchkey.close();
await Promise.all([sql.end(), pool.end()]);
