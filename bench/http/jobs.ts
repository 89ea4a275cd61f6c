/** The business code under measurement, the same behind every guard. */
import type pg from "pg";

export interface Order {
  readonly account: number;
  readonly item: string;
  readonly amount: number;
}

export interface PlacedOrder extends Order {
  readonly id: number;
}

export const accountCount = 10_000;

export const schema = `
  create table accounts (id integer primary key, balance bigint not null);
  insert into accounts select id, 0 from generate_series(1, ${accountCount}) as id;
  create table orders (
    id integer generated always as identity primary key,
    account integer not null references accounts (id),
    item text not null,
    amount integer not null,
    created_at timestamptz not null default now()
  );
`;

/** The two writes of an order, inside a transaction that is already open. */
export async function writeOrder(client: Pick<pg.ClientBase, "query">, order: Order): Promise<PlacedOrder> {
  const { account, item, amount } = order;
  const { rows } = await client.query<{ id: number }>(
    "insert into orders (account, item, amount) values ($1, $2, $3) returning id",
    [account, item, amount],
  );
  await client.query("update accounts set balance = balance - $1 where id = $2", [amount, account]);
  const [row] = rows;
  if (row === undefined) throw new Error("The insert returned no row");
  return { id: row.id, account, item, amount };
}

/** The transaction as it is written without Latchkey. */
export async function placeOrder(pool: pg.Pool, order: Order): Promise<PlacedOrder> {
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    const placed = await writeOrder(client, order);
    await client.query("COMMIT");
    return placed;
  } catch (error) {
    await client.query("ROLLBACK");
    throw error;
  } finally {
    client.release();
  }
}

let fixedAnswers = 0;

/** The answer of the trivial endpoint. */
export function fixedAnswer() {
  fixedAnswers += 1;
  return { id: 4711, item: "book", amount: 42, status: "accepted", currency: "EUR" };
}

/** How often a handler has run for the fixed answer: under a guard, once for each key. */
export function fixedAnswerCount(): number {
  return fixedAnswers;
}
