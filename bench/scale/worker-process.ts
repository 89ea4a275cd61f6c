/**
 * A measured process of a service: `worker-process.ts <url> <connections>`. It runs each turn that a line
 * `{"turn":n,"job":…}` on stdin requests, and answers with the measurements.
 */
import { createInterface } from "node:readline";
import { setTimeout } from "node:timers/promises";
import { createLatchkey } from "latchkey";
import { postgresStore } from "latchkey/postgres";
import pg from "pg";
import { dueOf, keyOf, requestOf, tenant } from "./fill.ts";
import type { Job, Turn } from "./worker.ts";

const [url, connections] = process.argv.slice(2) as [string, string];

const pool = new pg.Pool({ connectionString: url, max: Number(connections) });
pool.on("error", ({ message }) => console.error(message));
const perSchema = new Map<string, ReturnType<typeof open>>();

function open(schema: string) {
  const store = postgresStore({ pool, schema, transactionsMax: Number(connections) });
  const latchkey = createLatchkey({ store });
  const operation = latchkey.operation("orders.create", { answerLimitBytes: 4_000_000 });
  // Its keys are due at once, so that there is something to clean.
  const brief = latchkey.operation("drafts.create", { retentionMs: 1_000, forgetAfterMs: 1_000 });
  return { store, latchkey, operation, brief };
}

async function runJob(job: Job): Promise<Turn> {
  const opened = perSchema.get(job.schema) ?? open(job.schema);
  perSchema.set(job.schema, opened);
  const before = process.cpuUsage();
  const beginMs = performance.now();
  const latenciesMs = job.kind === "clean" ? await clean(opened, job) : await request(opened, job);
  const tookMs = performance.now() - beginMs;
  const { user, system } = process.cpuUsage(before);
  const count = latenciesMs.length;
  latenciesMs.sort((left, right) => left - right);
  const at = (share: number) => latenciesMs[Math.min(count - 1, Math.floor(count * share))] ?? Number.NaN;
  return { count, tookMs, cpuMicros: user + system, p50Ms: at(0.5), p99Ms: at(0.99) };
}

const expected: Record<Exclude<Job["kind"], "clean">, readonly string[]> = {
  first: ["executed"],
  brief: ["executed"],
  replay: ["replay"],
  again: ["executed", "replay"],
};

/** Sends requests one after the other on each of some connections, until the time is over. */
async function request(
  { latchkey, operation, brief }: ReturnType<typeof open>,
  job: Exclude<Job, { kind: "clean" }>,
): Promise<number[]> {
  const latenciesMs: number[] = [];
  const text = "x".repeat(job.bytes);
  let sent = 0;
  const next = () => {
    sent += 1;
    if (job.kind === "replay") return filled(job.rows);
    // A hundred keys, which the first of these turns creates.
    return requestOf("new", `${job.prefix}-${job.kind === "again" ? sent % 100 : sent}`);
  };
  const endMs = performance.now() + job.seconds * 1_000;
  const connection = async () => {
    while (performance.now() < endMs) {
      const wanted = next();
      const beganMs = performance.now();
      const result = await latchkey.run(job.kind === "brief" ? brief : operation, wanted, async ({ tx }) => {
        await tx.query("insert into orders (amount) values ($1)", [500]);
        return { text };
      });
      latenciesMs.push(performance.now() - beganMs);
      if (!expected[job.kind].includes(result.kind)) throw new Error(`${job.prefix}: ${result.kind}`);
    }
  };
  await Promise.all(Array.from({ length: job.concurrency }, connection));
  return latenciesMs;
}

function filled(rows: number) {
  const due = dueOf(rows);
  return requestOf(tenant, keyOf(due + Math.floor(Math.random() * (rows - due)), rows));
}

async function clean(
  { store }: ReturnType<typeof open>,
  { seconds, pauseMs, batchesMax }: Extract<Job, { kind: "clean" }>,
): Promise<number[]> {
  const latenciesMs: number[] = [];
  const endMs = performance.now() + seconds * 1_000;
  while (performance.now() < endMs && latenciesMs.length < batchesMax) {
    const beganMs = performance.now();
    const { forgotten } = await store.clean(1_000);
    if (forgotten > 0) latenciesMs.push(performance.now() - beganMs);
    await setTimeout(pauseMs);
  }
  return latenciesMs;
}

createInterface({ input: process.stdin }).on("line", (line) => {
  const { turn, job } = JSON.parse(line) as { turn: number; job: Job };
  runJob(job).then(
    (measured) => process.stdout.write(`${JSON.stringify({ replyTo: turn, ...measured })}\n`),
    (error) => {
      console.error(error);
      process.exit(1);
    },
  );
});

process.stdout.write(`${JSON.stringify({ ready: true })}\n`);
