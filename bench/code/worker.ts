/**
 * `worker.ts <framework> <job> <guard>`: a server and its clients in one process. It answers each line `{"ask":n,"count":m}`
 * on stdin with how long each of m requests took.
 */
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import pg from "pg";
import { until } from "../../test/support/until.ts";
import { startListener } from "../http/listener.ts";
import { connectOver } from "../http/services.ts";
import type { Framework, Guard, Job } from "../http/subject.ts";
import { MemoryConnection } from "./memory-connection.ts";
import { answerFromRecords, hasAnswered, RecordedStream } from "./recorded-postgres.ts";

const connectionCount = 8;
/** The number of keys that replays use in turn. */
const replayKeyCount = 200;
/** After this many requests, each statement has its name on each connection. */
const recordedRequests = 400;

const [framework, job, guard] = process.argv.slice(2) as [Framework, Job, Guard];

connectOver(() => new RecordedStream());
const server = createServer(await startListener(framework, job, guard));
const connections = Array.from({ length: connectionCount }, () => new MemoryConnection(server));
const keys = Array.from({ length: replayKeyCount }, () => randomUUID());
let sent = 0;

if (job === "order") {
  await run(recordedRequests);
  // A look-up in advance, which happens for one key in 260,000 that looks like another one seen before.
  const again = nextRequest();
  for (const connection of [...connections, ...connections]) await connection.request(again);
  // Latchkey writes the repetitions a second later.
  if (guard === "latchkey" || guard === "latchkey-optimistic") {
    await until(() => hasAnswered("jsonb_to_recordset"));
    // Otherwise the recorded look-up of such a key would find this one's record.
    await forgetKeys();
    await connections[0]?.request(again);
  }
  answerFromRecords();
} else {
  await run(replayKeyCount);
}
write({ ready: true });

createInterface({ input: process.stdin }).on("line", async (line) => {
  const { ask, count } = JSON.parse(line) as { ask: number; count: number };
  const startedAt = performance.now();
  await run(count);
  write({ replyTo: ask, micros: ((performance.now() - startedAt) * 1000) / count });
});

// An exit that Node notices, so that it writes the requested profile.
process.once("SIGTERM", () => process.exit(0));

async function forgetKeys(): Promise<void> {
  const client = new pg.Client(process.env.LATCHKEY_BENCH_POSTGRES);
  await client.connect();
  await client.query("delete from latchkey.records");
  await client.end();
}

async function run(count: number): Promise<void> {
  let left = count;
  await Promise.all(
    connections.map(async (connection) => {
      while (left-- > 0) await connection.request(nextRequest());
    }),
  );
}

function nextRequest(): Buffer {
  const key = job === "order" ? randomUUID() : keys[sent++ % replayKeyCount];
  const body = '{"account":1,"item":"book","amount":42}';
  const head = [
    `POST /${job} HTTP/1.1`,
    "Host: localhost",
    "Content-Type: application/json",
    "X-Tenant: bench",
    `Idempotency-Key: ${key}`,
    `Content-Length: ${body.length}`,
  ];
  return Buffer.from(`${head.join("\r\n")}\r\n\r\n${body}`);
}

function write(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}
