/** First requests over HTTP, one after the other, so that one backend executes all of their statements. */
import pg from "pg";
import { sendFirst } from "../http/load.ts";
import { startServer } from "../http/server.ts";
import { createTables, inDatabase } from "../tables.ts";
import type { CountingPostgres } from "./counting-postgres.ts";

/** Plans are made again for the first few uses of a statement, and the handler's get names later. */
const warmUp = 120;

/** How many instructions of a backend a first request of the checkout takes, in a new database with its own tables. */
export async function countFirstRequests(
  postgres: CountingPostgres,
  checkout: string,
  database: string,
  count: number,
): Promise<number> {
  await createTables(postgres.url, checkout, database);
  const url = inDatabase(postgres.url, database);
  const subject = { framework: "fastify", job: "order", guard: "latchkey" } as const;
  const server = await startServer(subject, { root: checkout, env: { LATCHKEY_BENCH_POSTGRES: url } });
  const send = async (times: number) => {
    for (let time = 0; time < times; time++) await sendFirst(server.url);
  };
  try {
    await send(warmUp);
    return (await postgres.count(await backendOf(postgres.url, database), () => send(count))) / count;
  } finally {
    await server.stop();
  }
}

async function backendOf(url: string, database: string): Promise<number> {
  const client = new pg.Client(url);
  await client.connect();
  const { rows } = await client.query<{ pid: number }>(
    "select pid from pg_stat_activity where datname = $1 and backend_type = 'client backend'",
    [database],
  );
  await client.end();
  const [row, ...others] = rows;
  if (row === undefined || others.length > 0) throw new Error(`${rows.length} connections instead of one`);
  return row.pid;
}
