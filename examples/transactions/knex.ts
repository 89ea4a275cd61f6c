/**
 * An order and its stock in one transaction of Knex's, sent twice as a client does that lost the first answer.
 * DATABASE_URL=postgres://… npm run knex -w latchkey-example-transactions
 */
import makeKnex, { type Knex } from "knex";
import { createLatchkey } from "latchkey";
import { knexPool, knexTransactions } from "latchkey/knex";
import { migratePostgres, postgresStore } from "latchkey/postgres";

const connection = process.env.DATABASE_URL;
if (connection === undefined) throw new TypeError("Set DATABASE_URL to a Postgres");
const knex = makeKnex({ client: "pg", connection, pool: { min: 0, max: 4 } });

const pool = knexPool(knex);
const store = postgresStore({ pool, transactions: knexTransactions({ knex }) });
const latchkey = createLatchkey({ store });
const placeOrder = latchkey.operation("orders.place");

/** Business code that knows nothing of Latchkey. */
async function takeFromStock(trx: Knex.Transaction, item: string): Promise<number> {
  const [row] = await trx("stock").where({ item }).decrement("left", 1).returning("left");
  return row.left;
}

function order(key: string, item: string) {
  return latchkey.run(placeOrder, { tenant: "shop", key, input: { item } }, async ({ tx }) => {
    const [{ id }] = await tx("orders").insert({ item }).returning("id");
    return { id, left: await takeFromStock(tx, item) };
  });
}

await migratePostgres(pool);
await knex.raw(`
  create table if not exists orders (id int generated always as identity primary key, item text not null);
  create table if not exists stock (item text primary key, "left" int not null);
  insert into stock values ('book', 10) on conflict do nothing`);

const key = process.env.KEY ?? crypto.randomUUID();
for (const name of ["first", "retry"]) {
  const answer = await order(key, "book");
  console.log(`${name}: ${answer.kind} ${JSON.stringify("value" in answer ? answer.value : null)}`);
}
const { rows } = await knex.raw("select count(*) as orders from orders");
console.log(`orders: ${rows[0].orders}`);

await latchkey.close();
await knex.destroy();
