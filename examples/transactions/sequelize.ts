/**
 * An order and its stock in one transaction of Sequelize's, sent twice as a client does that lost the first answer.
 * DATABASE_URL=postgres://… npm run sequelize -w latchkey-example-transactions
 */
import { createLatchkey } from "latchkey";
import { migratePostgres, postgresStore } from "latchkey/postgres";
import { sequelizePool, sequelizeTransactions } from "latchkey/sequelize";
import {
  type CreationOptional,
  DataTypes,
  type InferAttributes,
  type InferCreationAttributes,
  Model,
  Sequelize,
  type Transaction,
} from "sequelize";

class Order extends Model<InferAttributes<Order>, InferCreationAttributes<Order>> {
  declare id: CreationOptional<number>;
  declare item: string;
}
class Stock extends Model<InferAttributes<Stock>, InferCreationAttributes<Stock>> {
  declare item: string;
  declare left: number;
}

const url = process.env.DATABASE_URL;
if (url === undefined) throw new TypeError("Set DATABASE_URL to a Postgres");
const sequelize = new Sequelize(url, {
  logging: false,
  dialectOptions: { connectionTimeoutMillis: 3_000 },
  define: { timestamps: false },
});
Order.init(
  { id: { type: DataTypes.INTEGER, primaryKey: true, autoIncrement: true }, item: DataTypes.TEXT },
  { sequelize, tableName: "orders" },
);
Stock.init(
  { item: { type: DataTypes.TEXT, primaryKey: true }, left: DataTypes.INTEGER },
  { sequelize, tableName: "stock" },
);

const pool = sequelizePool(sequelize);
const store = postgresStore({ pool, transactions: sequelizeTransactions({ sequelize }) });
const latchkey = createLatchkey({ store });
const placeOrder = latchkey.operation("orders.place");

/** Business code that knows nothing of Latchkey. */
async function takeFromStock(transaction: Transaction, item: string): Promise<number> {
  await Stock.decrement("left", { where: { item }, transaction });
  const { left } = await Stock.findByPk(item, { transaction, rejectOnEmpty: true });
  return left;
}

function order(key: string, item: string) {
  return latchkey.run(placeOrder, { tenant: "shop", key, input: { item } }, async ({ tx }) => {
    const { id } = await Order.create({ item }, { transaction: tx });
    return { id, left: await takeFromStock(tx, item) };
  });
}

await migratePostgres(pool);
await sequelize.sync();
await Stock.findOrCreate({ where: { item: "book" }, defaults: { item: "book", left: 10 } });

const key = process.env.KEY ?? crypto.randomUUID();
for (const name of ["first", "retry"]) {
  const answer = await order(key, "book");
  console.log(`${name}: ${answer.kind} ${JSON.stringify("value" in answer ? answer.value : null)}`);
}
console.log(`orders: ${await Order.count()}`);

await latchkey.close();
await sequelize.close();
