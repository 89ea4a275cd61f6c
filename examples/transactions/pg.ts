/**
 * An order and its stock in one transaction of `pg`, sent twice as a client does that lost the first answer.
 * DATABASE_URL=postgres://… npm run pg -w latchkey-example-transactions
 */
import { createLatchkey } from "latchkey";
import { migratePostgres, postgresStore } from "latchkey/postgres";
import pg from "pg";

const connectionString = process.env.DATABASE_URL;
if (connectionString === undefined) throw new TypeError("Set DATABASE_URL to a Postgres");
const pool = new pg.Pool({ connectionString, connectionTimeoutMillis: 3_000 });
pool.on("error", console.error);

const latchkey = createLatchkey({ store: postgresStore({ pool }) });
const placeOrder = latchkey.operation("orders.place");

/** Business code that knows nothing of Latchkey: it takes a pool, a client, or the client of a transaction. */
async function takeFromStock(client: Pick<pg.ClientBase, "query">, item: string): Promise<number> {
  const text = `update stock set "left" = "left" - 1 where item = $1 returning "left"`;
  const { rows } = await client.query<{ left: number }>(text, [item]);
  if (rows[0] === undefined) throw new Error(`There is no ${item}`);
  return rows[0].left;
}

function order(key: string, item: string) {
  return latchkey.run(placeOrder, { tenant: "shop", key, input: { item } }, async ({ tx }) => {
    const text = "insert into orders (item) values ($1) returning id";
    const { rows } = await tx.query<{ id: number }>(text, [item]);
    return { id: rows[0]?.id, left: await takeFromStock(tx, item) };
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
const { rows } = await pool.query<{ count: string }>("select count(*) from orders");
console.log(`orders: ${rows[0]?.count}`);

await latchkey.close();
await pool.end();
