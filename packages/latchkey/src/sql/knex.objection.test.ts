/** Objection's models on the `trx` of a handler. */
import makeKnex, { type Knex } from "knex";
import { Model, transaction } from "objection";
import { beforeAll, expect, test } from "vitest";
import { migratedDatabase } from "../../../../test/postgres/harness.ts";
import { onRelease } from "../../../../test/support/resources.ts";
import { createLatchkey } from "../index.ts";
import { postgresStore } from "../stores/postgres.ts";
import { knexPool, knexTransactions } from "./knex.ts";

class Line extends Model {
  static override tableName = "lines";
  declare id: number;
  declare item: string;
}

class Order extends Model {
  static override tableName = "orders";
  static override relationMappings = {
    lines: {
      relation: Model.HasManyRelation,
      modelClass: Line,
      join: { from: "orders.id", to: "lines.order_id" },
    },
  };
  declare id: number;
  declare account: string;
  declare lines?: Line[];
}

let knex: Knex;
let run: (key: string, handler: (trx: Knex.Transaction) => Promise<unknown>) => Promise<unknown>;

beforeAll(async () => {
  knex = makeKnex({ client: "pg", connection: await migratedDatabase(), pool: { min: 0, max: 4 } });
  onRelease(() => knex.destroy());
  await knex.schema.createTable("orders", (table) => {
    table.increments("id");
    table.text("account").notNullable();
  });
  await knex.schema.createTable("lines", (table) => {
    table.increments("id");
    table.integer("order_id").references("orders.id");
    table.text("item").notNullable();
  });
  const store = postgresStore({ pool: knexPool(knex), transactions: knexTransactions({ knex }) });
  const latchkey = createLatchkey({ store });
  const operation = latchkey.operation("orders");
  run = (key, handler) => latchkey.run(operation, { tenant: "t", key, input: key }, ({ tx }) => handler(tx));
});

const accounts = async () => (await Order.query(knex).orderBy("id")).map(({ account }) => account);

test("graphs are written in the handler's transaction, and a second request gets the first answer", async () => {
  const place = () =>
    run("graph", async (trx) => {
      const order = await Order.query(trx).insertGraph({
        account: "acme",
        lines: [{ item: "kettle" }, { item: "cup" }],
      } as Partial<Order>);
      const found = await Order.query(trx).findById(order.id).withGraphFetched("lines").throwIfNotFound();
      return { account: found.account, items: found.lines?.map(({ item }) => item) };
    });
  const answer = { account: "acme", items: ["kettle", "cup"] };
  expect(await place()).toMatchObject({ kind: "executed", value: answer });
  expect(await place()).toMatchObject({ kind: "replay", value: answer });
  expect(await Line.query(knex).resultSize()).toBe(2);
});

test("a transaction of Objection's inside is a savepoint", async () => {
  const add = (trx: Knex.Transaction, account: string) => Order.query(trx).insert({ account });
  await run("nested", async (trx) => {
    await add(trx, "outer");
    await expect(
      transaction(trx, async (nested) => {
        await add(nested, "inner");
        throw new Error("only the inner one");
      }),
    ).rejects.toThrow("only the inner one");
    await Order.transaction(trx, async (nested) => add(nested, "inner, kept"));
    return null;
  });
  expect(await accounts()).toEqual(["acme", "outer", "inner, kept"]);
});

test("a unique violation that the handler catches fails the request", async () => {
  await knex.raw("create unique index on orders (account) where account = 'only once'");
  await Order.query(knex).insert({ account: "only once" });
  const swallowing = run("swallowed", async (trx) => {
    await Order.query(trx).insert({ account: "swallowed" });
    await Order.query(trx)
      .insert({ account: "only once" })
      .catch(() => {});
    return "paid";
  });
  await expect(swallowing).rejects.toMatchObject({ code: "transaction-aborted" });
  expect(await accounts()).not.toContain("swallowed");
});

test("a query after the end is refused", async () => {
  let late: Knex.Transaction | undefined;
  await run("late", async (trx) => {
    late = trx;
    await Order.query(trx).insert({ account: "in time" });
    return null;
  });
  await expect(Order.query(late).insert({ account: "late" })).rejects.toMatchObject({ code: "tx-revoked" });
  expect(await accounts()).not.toContain("late");
});
