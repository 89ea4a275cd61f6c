/**
 * An order and its stock in one transaction of PGlite's, sent twice as a client does that lost the first answer. The
 * database ends with the process; with DATA_DIR=./data it stays.
 * npm run pglite -w latchkey-example-transactions
 */
import { PGlite, type Transaction } from "@electric-sql/pglite";
import { createLatchkey } from "latchkey";
import { openPglite } from "latchkey/pglite";

const dataDir = process.env.DATA_DIR ?? "memory://";
const { store, database, close } = await openPglite(PGlite, { dataDir });
const latchkey = createLatchkey({ store });
const placeOrder = latchkey.operation("orders.place");

/** Business code that knows nothing of Latchkey. */
async function takeFromStock(tx: Pick<Transaction, "query">, item: string): Promise<number> {
  const text = `update stock set "left" = "left" - 1 where item = $1 returning "left"`;
  const { rows } = await tx.query<{ left: number }>(text, [item]);
  if (rows[0] === undefined) throw new Error(`There is no ${item}`);
  return rows[0].left;
}

function order(key: string, item: string) {
  return latchkey.run(placeOrder, { tenant: "shop", key, input: { item } }, async ({ tx }) => {
    const { rows } = await tx.sql<{ id: number }>`insert into orders (item) values (${item}) returning id`;
    return { id: rows[0]?.id, left: await takeFromStock(tx, item) };
  });
}

await database.exec(`
  create table if not exists orders (id int generated always as identity primary key, item text not null);
  create table if not exists stock (item text primary key, "left" int not null);
  insert into stock values ('book', 10) on conflict do nothing`);

const key = process.env.KEY ?? crypto.randomUUID();
for (const name of ["first", "retry"]) {
  const answer = await order(key, "book");
  console.log(`${name}: ${answer.kind} ${JSON.stringify("value" in answer ? answer.value : null)}`);
}
const { rows } = await database.query<{ count: number }>("select count(*)::int from orders");
console.log(`orders: ${rows[0]?.count}`);

await latchkey.close();
await close();
