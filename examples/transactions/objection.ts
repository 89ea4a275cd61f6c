/**
 * An order and its stock through Objection's models in one transaction, sent twice as a client does that lost the first answer.
 * DATABASE_URL=postgres://… npm run objection -w latchkey-example-transactions
 */
import makeKnex from "knex";
import { createLatchkey } from "latchkey";
import { knexPool, knexTransactions } from "latchkey/knex";
import { migratePostgres, postgresStore } from "latchkey/postgres";
import { Model, type Transaction } from "objection";

const connection = process.env.DATABASE_URL;
if (connection === undefined) throw new TypeError("Set DATABASE_URL to a Postgres");
const knex = makeKnex({ client: "pg", connection, pool: { min: 0, max: 4 } });
Model.knex(knex);

class Order extends Model {
  static override readonly tableName = "orders";
  declare id: number;
  declare item: string;
}

class Stock extends Model {
  static override readonly tableName = "stock";
  static override readonly idColumn = "item";
  declare item: string;
  declare left: number;
}

const pool = knexPool(knex);
const store = postgresStore({ pool, transactions: knexTransactions({ knex }) });
const latchkey = createLatchkey({ store });
const placeOrder = latchkey.operation("orders.place");

/** Business code that knows nothing of Latchkey. */
async function takeFromStock(trx: Transaction, item: string): Promise<number> {
  await Stock.query(trx).findById(item).decrement("left", 1);
  const { left } = await Stock.query(trx).findById(item).throwIfNotFound();
  return left;
}

function order(key: string, item: string) {
  return latchkey.run(placeOrder, { tenant: "shop", key, input: { item } }, async ({ tx }) => {
    const { id } = await Order.query(tx).insert({ item });
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
console.log(`orders: ${await Order.query().resultSize()}`);

await latchkey.close();
await knex.destroy();
