/** `worker.ts <framework> <job> <guard>`: the server and its clients in one process. Each line `{"run":n}` is answered with the time that n requests took. */
import { randomUUID } from "node:crypto";
import { writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { Session } from "node:inspector";
import { createInterface } from "node:readline";
import { connectOver } from "../http/services.ts";
import type { Framework, Guard, Job } from "../http/subject.ts";
import { connect } from "./memory-connection.ts";
import { answerFromRecords, RecordedStream } from "./recorded-postgres.ts";

const [framework, job, guard] = process.argv.slice(2) as [Framework, Job, Guard];
const starts: Readonly<
  Record<Framework, () => Promise<(job: Job, guard: Guard) => Promise<RequestListener>>>
> = {
  express: async () => (await import("../http/express.ts")).startExpress,
  fastify: async () => (await import("../http/fastify.ts")).startFastify,
  hono: async () => (await import("../http/hono.ts")).startHono,
};
connectOver(() => new RecordedStream());
const start = await starts[framework]();
const server = createServer(await start(job, guard));
let connections = Array.from({ length: 8 }, () => connect(server, false));
let sent = 0;
const session = new Session();
const body = JSON.stringify({ account: 1, item: "book", amount: 42 });
const keys = Array.from({ length: 200 }, () => randomUUID());

function nextRequest(): Buffer {
  const key = job === "order" ? randomUUID() : keys[sent++ % keys.length];
  return Buffer.from(
    `POST /${job} HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\ncontent-type: application/json\r\nx-tenant: bench\r\nidempotency-key: ${key}\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
}

async function run(count: number): Promise<void> {
  let left = count;
  await Promise.all(
    connections.map(async (connection) => {
      while (left-- > 0) await connection.request(nextRequest());
    }),
  );
}

if (job === "order") {
  await run(400);
  answerFromRecords();
} else {
  for (let i = 0; i < 200; i++) await connections[0]!.request(nextRequest());
}
connections = Array.from({ length: 8 }, () => connect(server, true));
process.stdout.write('{"ready":true}\n');
createInterface({ input: process.stdin }).on("line", async (line) => {
  const { run: count, id, profile } = JSON.parse(line);
  if (profile) {
    session.connect();
    session.post("Profiler.enable");
    session.post("Profiler.setSamplingInterval", { interval: 100 });
    session.post("Profiler.start");
    process.once("SIGTERM", () => {
      session.post("Profiler.stop", (_error: unknown, { profile }: any) => {
        writeFileSync(
          `${process.env.PROF}/${framework}-${job}-${guard}.json`,
          JSON.stringify({ ...profile, requests: done }),
        );
        process.exit(0);
      });
    });
  }
  done += count;
  const before = process.cpuUsage();
  const from = performance.now();
  await run(count);
  const micros = (performance.now() - from) * 1000;
  const { user, system } = process.cpuUsage(before);
  process.stdout.write(`${JSON.stringify({ id, micros: micros / count, cpu: (user + system) / count })}\n`);
});
if (!process.env.PROF) process.once("SIGTERM", () => process.exit(0));
let done = 0;
