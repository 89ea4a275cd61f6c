/**
 * An order and its stock in one transaction of TypeORM's, sent twice as a client does that lost the first answer.
 * DATABASE_URL=postgres://… npm run typeorm -w latchkey-example-transactions
 */
import { createLatchkey } from "latchkey";
import { migratePostgres, postgresStore } from "latchkey/postgres";
import { typeormPool, typeormTransactions } from "latchkey/typeorm";
import { DataSource, type EntityManager, EntitySchema } from "typeorm";

const Order = new EntitySchema<{ id: number; item: string }>({
  name: "order",
  tableName: "orders",
  columns: { id: { type: Number, primary: true, generated: true }, item: { type: "text" } },
});
const Stock = new EntitySchema<{ item: string; left: number }>({
  name: "stock",
  columns: { item: { type: "text", primary: true }, left: { type: Number } },
});

const url = process.env.DATABASE_URL;
if (url === undefined) throw new TypeError("Set DATABASE_URL to a Postgres");
const dataSource = new DataSource({
  type: "postgres",
  url,
  entities: [Order, Stock],
  synchronize: true,
  connectTimeoutMS: 3_000,
});
await dataSource.initialize();

const pool = typeormPool(dataSource);
const store = postgresStore({ pool, transactions: typeormTransactions({ dataSource }) });
const latchkey = createLatchkey({ store });
const placeOrder = latchkey.operation("orders.place");

/** Business code that knows nothing of Latchkey. */
async function takeFromStock(manager: EntityManager, item: string): Promise<number> {
  await manager.decrement(Stock, { item }, "left", 1);
  const { left } = await manager.findOneByOrFail(Stock, { item });
  return left;
}

function order(key: string, item: string) {
  return latchkey.run(placeOrder, { tenant: "shop", key, input: { item } }, async ({ tx }) => {
    const { id } = await tx.save(Order, { item });
    return { id, left: await takeFromStock(tx, item) };
  });
}

await migratePostgres(pool);
await dataSource.manager.upsert(Stock, { item: "book", left: 10 }, ["item"]);

const key = process.env.KEY ?? crypto.randomUUID();
for (const name of ["first", "retry"]) {
  const answer = await order(key, "book");
  console.log(`${name}: ${answer.kind} ${JSON.stringify("value" in answer ? answer.value : null)}`);
}
console.log(`orders: ${await dataSource.manager.count(Order)}`);

await latchkey.close();
await dataSource.destroy();
