/**
 * `npm run bench:instructions`: how many instructions a backend of Postgres executes for a message, for a first request over
 * HTTP, and for each of Latchkey's statements in one. Unlike times, these counts do not depend on what else the machine does.
 * Needs valgrind.
 */
import { randomBytes, randomUUID } from "node:crypto";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { createInbox, createLatchkey } from "latchkey";
import { migratePostgres, postgresStore } from "latchkey/postgres";
import pg from "pg";
import { transactionStatements } from "../../packages/latchkey/src/stores/postgres/transactions/transaction-statements.ts";
import { runProgram } from "../../test/support/program.ts";
import { positive } from "../machine.ts";
import { type CountingPostgres, startCountingPostgres } from "./counting-postgres.ts";
import { countFirstRequests } from "./first-requests.ts";

const root = resolve(import.meta.dirname, "../..");
const usage = `npm run bench:instructions -- [--messages 200] [--against <checkout>]

--against also counts first requests of another checkout, on its own tables.`;
const insert = "insert into shipments (order_id) values ($1)";
const insertId = "insert into seen (id) values ($1) on conflict do nothing";
const batchSize = 50;
/** Plans are made again for the first few uses of a statement. */
const warmUp = 100;

type Work = (orders: readonly number[]) => Promise<void>;

async function run(): Promise<void> {
  const text = { type: "string" } as const;
  const { values } = parseArgs({ options: { messages: text, against: text } });
  const messages = batchSize * Math.ceil(positive("messages", values.messages ?? "200") / batchSize);
  const server = await startCountingPostgres();
  const pool = new pg.Pool({ connectionString: server.url, max: 1 });
  await migratePostgres(pool);
  await pool.query("create table shipments (order_id integer); create table seen (id text primary key)");
  await pool.end();
  console.log(
    `PostgreSQL ${server.fullVersion}, ${messages} of each\n\n| | 1,000 instructions |\n| --- | --- |`,
  );
  for (const [name, workOf] of Object.entries(consumers)) {
    // The library leaves one connection of a pool free, and takes the same one again and again.
    const own = new pg.Pool({ connectionString: server.url, max: 2 });
    const work = workOf(own);
    await work(upTo(warmUp));
    const { rows } = await own.query<{ pid: number }>("select pg_backend_pid() as pid");
    report(name, (await server.count(rows[0]?.pid ?? 0, () => work(upTo(messages)))) / messages);
    await own.end();
  }
  report("a first request", await countFirstRequests(server, root, "here", messages));
  if (values.against !== undefined) {
    const other = await countFirstRequests(server, resolve(values.against), "there", messages);
    report("a first request (other checkout)", other);
  }
  for (const [name, valuesOf] of Object.entries(statements))
    await countStatement(server, name, valuesOf, messages);
}

const upTo = (count: number) => Array.from({ length: count }, (_, order) => order);

function report(name: string, instructions: number): void {
  console.log(`| ${name} | ${(instructions / 1_000).toFixed(0)} |`);
}

const consumers: Readonly<Record<string, (pool: pg.Pool) => Work>> = {
  "a message, bare": (pool) => oneByOne((order) => pool.query(insert, [order])),
  "a message, by hand": (pool) =>
    oneByOne((order) => byHand(pool, order, (_, text, values) => ({ text, values }))),
  "a message, by hand with named statements": (pool) =>
    oneByOne((order) => byHand(pool, order, (name, text, values) => ({ name, text, values }))),
  "a message of the inbox": (pool) => oneByOne(inboxOf(pool, "pessimistic")),
  'a message of the inbox, `admission: "optimistic"`': (pool) => oneByOne(inboxOf(pool, "optimistic")),
  "a message of the inbox, `batchSize: 50`": (pool) => {
    const consume = inboxOf(pool, "pessimistic", batchSize);
    return async (orders) => {
      for (let at = 0; at < orders.length; at += batchSize) {
        await Promise.all(orders.slice(at, at + batchSize).map(consume));
      }
    };
  },
};

function oneByOne(consume: (order: number) => Promise<unknown>): Work {
  return async (orders) => {
    for (const order of orders) await consume(order);
  };
}

type Query = (name: string, text: string, values: unknown[]) => pg.QueryConfig;

async function byHand(pool: pg.Pool, order: number, query: Query): Promise<void> {
  const client = await pool.connect();
  await client.query("begin");
  await client.query(query("seen", insertId, [randomUUID()]));
  await client.query(query("insert", insert, [order]));
  await client.query("commit");
  client.release();
}

function inboxOf(pool: pg.Pool, admission: "pessimistic" | "optimistic", size: number | false = false) {
  const latchkey = createLatchkey({ store: postgresStore({ pool }) });
  const operation = latchkey.operation("shipments.create", { admission });
  const inbox = createInbox<pg.PoolClient, "transaction", { readonly order: number }>(
    latchkey as never,
    operation as never,
    { tenant: "bench", batchSize: size },
    async ({ tx, input }) => void (await tx.query(insert, [input.order])),
  );
  return (order: number) =>
    inbox.consume({
      id: randomUUID(),
      source: "bench",
      body: Buffer.from(JSON.stringify({ order })),
      contentType: "application/json",
      headers: {},
      redelivered: false,
    });
}

const tables = [
  "records",
  "leases",
  "steps",
  "outbox",
  "messages",
  "audit",
  "early",
  "facts",
  "settings",
] as const;
const names = Object.fromEntries(tables.map((name) => [name, `latchkey.${name}`])) as Record<
  (typeof tables)[number],
  string
>;
const own = transactionStatements({
  ...names,
  clock: "pg_catalog.clock_timestamp()",
  synced: true,
  serverLimits: true,
});

const key = () => ({ tenant: "bench", scope: "shipments.create", key: randomUUID() });
/** Each with its values. `began` is read once, because the statements run in one transaction. */
const statements: Readonly<Record<string, (began: string) => pg.QueryConfig>> = {
  "`select 1`": () => ({ name: "one", text: "select 1" }),
  "the handler's insert": () => ({ name: "insert", text: insert, values: [1] }),
  "`open.sql`: lock, session, limits": () =>
    bound(own.open.plain.bind({ lock: String(randomBytes(6).readUIntBE(0, 6)), limit_ms: "10000" })),
  "`look.sql`: the look-up": () => bound(own.look.bind(key())),
  "`complete.sql`: the record": (began) =>
    bound(
      own.complete.bind({
        ...key(),
        id: randomUUID(),
        operation: "shipments.create",
        fingerprint_version: 2,
        fingerprint: randomBytes(32),
        principal: null,
        attempt: 1,
        token: randomUUID(),
        summary: null,
        answer: randomBytes(9),
        retention_ms: 86_400_000,
        forget_after_ms: 86_400_000,
        began,
      }),
    ),
};

function bound({ name, text, values }: ReturnType<typeof own.look.bind>): pg.QueryConfig {
  return {
    name,
    text,
    values: values.map((value) => (value instanceof Uint8Array ? Buffer.from(value) : value)),
  };
}

async function countStatement(
  server: CountingPostgres,
  name: string,
  queryOf: (typeof statements)[string],
  count: number,
): Promise<void> {
  const client = new pg.Client(server.url);
  await client.connect();
  await client.query("begin");
  const { rows } = await client.query<{ pid: number; began: string }>(
    "select pg_backend_pid() as pid, encode(timestamptz_send(now()), 'hex') as began",
  );
  const { pid = 0, began = "" } = rows[0] ?? {};
  const send = async (times: number) => {
    for (let time = 0; time < times; time++) await client.query(queryOf(began));
  };
  await send(warmUp);
  report(`a statement: ${name}`, (await server.count(pid, () => send(count))) / count);
  await client.end();
}

await runProgram(run, usage);
