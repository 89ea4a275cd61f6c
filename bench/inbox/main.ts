/**
 * `npm run bench:inbox`: how fast an inbox processes a queue of RabbitMQ, compared with a bare consumer with the same insert.
 */
import { randomUUID } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { createLatchkey } from "latchkey";
import { migratePostgres, postgresStore } from "latchkey/postgres";
import { rabbitmqConsumer } from "latchkey/rabbitmq";
import pg from "pg";
import { Connection } from "rabbitmq-client";
import { startRabbitmq } from "../../test/support/private-brokers.ts";
import { startPostgres } from "../../test/support/private-postgres.ts";
import { runProgram } from "../../test/support/program.ts";
import { until } from "../../test/support/until.ts";
import { databaseCpuMicros } from "../database-cpu.ts";
import { machineOf, positive, renderMachine, serverSettings } from "../machine.ts";
import { intoPage } from "../report.ts";

const root = resolve(import.meta.dirname, "../..");
const prefetch = 20;
const insert = "insert into shipments (order_id) values ($1)";
const limitMs = 120_000;
const batchSize = 50;
const batchPrefetch = 4 * batchSize;
const kinds = ["bare", "by hand", "inbox", "optimistic", "bare, more", "batch"] as const;
type Kind = (typeof kinds)[number];
/** What each does, and its number of round trips to Postgres. */
const about: Record<Kind, string> = {
  bare: "bare: one autocommitted insert for each message | 1",
  "by hand": "by hand: BEGIN, the id into a table of its own, the insert, COMMIT | 4",
  inbox: "**inbox** | 3",
  optimistic: '**inbox, `admission: "optimistic"`** | 2',
  "bare, more": `bare, prefetch ${batchPrefetch} | 1`,
  batch: `**inbox, \`batchSize: ${batchSize}\`**, prefetch ${batchPrefetch} | 1, and 2 for each batch`,
};

const usage = "npm run bench:inbox -- [--rounds 5] [--messages 10000] [--out docs]";

await runProgram(run, usage);

async function run(): Promise<void> {
  const text = { type: "string" } as const;
  const { values } = parseArgs({ options: { rounds: text, messages: text, out: text } });
  const rounds = Math.ceil(positive("rounds", values.rounds ?? "5"));
  const messages = Math.ceil(positive("messages", values.messages ?? "10000"));
  const [load = 0] = loadavg();
  const postgres = await startPostgres({ conf: serverSettings });
  const broker = await startRabbitmq();
  if (broker === undefined) return;
  const pool = new pg.Pool({ connectionString: postgres.url, max: prefetch });
  await migratePostgres(pool);
  await pool.query("create table shipments (order_id integer); create table seen (id text primary key)");
  const connection = new Connection({ url: broker.url });
  const turns: Record<Kind, Turn[]> = {
    bare: [],
    "by hand": [],
    inbox: [],
    optimistic: [],
    "bare, more": [],
    batch: [],
  };
  const where = { pool, connection, postmaster: postgres.pid };
  for (let round = 1; round <= rounds; round += 1) {
    for (const kind of round % 2 === 0 ? kinds.toReversed() : kinds) {
      const turn = await workOff(kind, where, messages);
      turns[kind].push(turn);
      console.error(`${round} ${kind}: ${turn.rate.toFixed(0)} messages/s`);
    }
  }
  await connection.close();
  await pool.end();
  const table = [
    "| Consumer | round trips | messages/s | relative to bare | consumer CPU µs | database CPU µs |",
    "| --- | --- | --- | --- | --- | --- |",
    ...kinds.map((kind) => renderRow(kind, turns)),
  ].join("\n");
  const args = process.argv.slice(2);
  const command = ["npm run bench:inbox", ...(args.length > 0 ? ["--", ...args] : [])].join(" ");
  const date = new Date().toISOString().slice(0, 10);
  const machine = machineOf(postgres);
  const facts =
    `Measured on ${date} with \`${command}\`: ${rounds} alternating rounds, medians; a ` +
    `queue of ${messages} messages processed by one process, prefetch ${prefetch} unless stated otherwise, ${prefetch} connections to Postgres.\n\n` +
    `${renderMachine(machine)}. Load average before the run: ${load.toFixed(1)}.`;
  const page = `${facts}\n\n${table}`;
  console.log(page);
  const results = kinds.map((name) => ({ name, ...resultOf(name, turns) }));
  write(resolve(values.out ?? "docs"), page, { date, command, machine, results });
}

interface Turn {
  /** Messages per second. */
  readonly rate: number;
  /** For each message. */
  readonly consumerMicros: number;
  readonly databaseMicros: number;
}

interface Where {
  readonly pool: pg.Pool;
  readonly connection: Connection;
  readonly postmaster: number;
}

async function workOff(kind: Kind, where: Where, messages: number): Promise<Turn> {
  const { pool, connection, postmaster } = where;
  const queue = `bench-${randomUUID()}`;
  await connection.queueDeclare({ queue, durable: true });
  await fill(connection, queue, messages);
  await pool.query("truncate shipments, seen, latchkey.records");
  const [beginMs, cpu, database] = [performance.now(), process.cpuUsage(), databaseCpuMicros(postmaster)];
  const stop =
    kind === "inbox" || kind === "optimistic" || kind === "batch"
      ? consumeInbox(kind, pool, connection, queue)
      : consumePlain(kind, pool, connection, queue);
  const count = async () => (await pool.query("select count(*)::int as n from shipments")).rows[0]?.n;
  await until(async () => (await count()) === messages, { timeoutMs: limitMs, intervalMs: 100 });
  const tookMs = performance.now() - beginMs;
  const { user, system } = process.cpuUsage(cpu);
  const databaseMicros = ((databaseCpuMicros(postmaster) ?? Number.NaN) - (database ?? 0)) / messages;
  await stop();
  await connection.queueDelete({ queue });
  return { rate: (messages * 1_000) / tookMs, consumerMicros: (user + system) / messages, databaseMicros };
}

function resultOf(kind: Kind, turns: Record<Kind, readonly Turn[]>) {
  const of = (field: keyof Turn) => median(turns[kind].map((turn) => turn[field]));
  return {
    messagesPerSecond: of("rate"),
    // In the same round, because other work on the machine changes from one round to the next.
    relative: median(turns[kind].map(({ rate }, round) => rate / (turns.bare[round]?.rate ?? Number.NaN))),
    consumerMicros: of("consumerMicros"),
    databaseMicros: of("databaseMicros"),
  };
}

function renderRow(kind: Kind, turns: Record<Kind, readonly Turn[]>): string {
  const { messagesPerSecond, relative, consumerMicros, databaseMicros } = resultOf(kind, turns);
  const cells = [messagesPerSecond.toFixed(0), relative.toFixed(2), consumerMicros, databaseMicros];
  return `| ${about[kind]} | ${cells.map((cell) => (typeof cell === "number" ? cell.toFixed(0) : cell)).join(" | ")} |`;
}

async function fill(connection: Connection, queue: string, messages: number): Promise<void> {
  const publisher = connection.createPublisher({ confirm: true });
  const envelope = { routingKey: queue, durable: true, contentType: "application/json" };
  const send = (order: number) =>
    publisher.send({ ...envelope, messageId: randomUUID() }, Buffer.from(JSON.stringify({ order })));
  await Promise.all(Array.from({ length: messages }, (_, order) => send(order)));
  await publisher.close();
}

function consumePlain(kind: Kind, pool: pg.Pool, connection: Connection, queue: string) {
  const concurrency = kind === "bare, more" ? batchPrefetch : prefetch;
  const settings = {
    queue,
    queueOptions: { passive: true },
    qos: { prefetchCount: concurrency },
    concurrency,
  };
  const consumer = connection.createConsumer(settings, async ({ body, messageId }) => {
    if (kind !== "by hand") await pool.query(insert, [body.order]);
    else await byHand(pool, messageId ?? "", body.order);
  });
  return () => consumer.close();
}

/** A typical solution without a library to run a message once. */
async function byHand(pool: pg.Pool, id: string, order: number): Promise<void> {
  const client = await pool.connect();
  try {
    await client.query("begin");
    const { rowCount } = await client.query("insert into seen (id) values ($1) on conflict do nothing", [id]);
    if (rowCount === 1) await client.query(insert, [order]);
    await client.query("commit");
  } finally {
    client.release();
  }
}

function consumeInbox(kind: Kind, pool: pg.Pool, connection: Connection, queue: string) {
  const latchkey = createLatchkey({ store: postgresStore({ pool }) });
  const options = {
    connection,
    queue,
    tenant: "bench",
    ...(kind === "batch" ? { batchSize, prefetch: batchPrefetch } : { prefetch }),
  };
  const admission = kind === "optimistic" ? "optimistic" : "pessimistic";
  const operation = latchkey.operation("shipments.create", { admission });
  const consumer = rabbitmqConsumer(
    latchkey,
    operation,
    { ...options, decode: readOrder },
    async ({ tx, input }) => {
      await tx.query(insert, [input.order]);
    },
  );
  return async () => {
    await consumer.stop();
    await latchkey.close();
  };
}

function readOrder({ body }: { readonly body: Uint8Array }): { readonly order: number } {
  return JSON.parse(Buffer.from(body).toString("utf8"));
}

function median(values: readonly number[]): number {
  return values.toSorted((left, right) => left - right)[Math.floor(values.length / 2)] ?? Number.NaN;
}

function write(folder: string, measured: string, data: object): void {
  mkdirSync(folder, { recursive: true });
  const page = readFileSync(join(root, "docs/performance.md"), "utf8");
  writeFileSync(join(folder, "performance.md"), intoPage(page, measured, "inbox"));
  writeFileSync(join(folder, "performance-inbox.json"), `${JSON.stringify(data, null, 2)}\n`);
}
