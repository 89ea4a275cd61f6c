/**
 * `npm run bench:code`: measures the JavaScript time of one request, for the whole endpoint in one process, without a network
 * and with a Postgres that answers from records. A quarter of the turns are faster than the first quartile, which mostly
 * excludes the effect of other work on the machine.
 */
import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { migratePostgres } from "latchkey/postgres";
import pg from "pg";
import { type PrivatePostgres, startPostgres } from "../../test/support/private-postgres.ts";
import { spawnWorker, type WorkerProcess } from "../../test/support/processes.ts";
import { runProgram } from "../../test/support/program.ts";
import { schema } from "../http/jobs.ts";
import { byHandSchema } from "../http/peers/by-hand.ts";
import { nameOf, type Subject, subjects } from "../http/subject.ts";
import { positive } from "../machine.ts";

const root = resolve(import.meta.dirname, "../..");
const guards: readonly string[] = ["none", "latchkey", "latchkey-memory", "by-hand", "by-hand-memory"];
const requestsEachTurn = { order: 300, replay: 1000 } as const;
const usage = `npm run bench:code -- [--only hono/order,express] [--turns 80] [--warm-up 100] [--against <checkout>] [--profile <folder>]

A turn is 300 first requests or 1,000 replays. The code is compiled after about 100 turns.`;

interface Entry {
  readonly name: string;
  readonly subject: Subject;
  readonly worker: WorkerProcess;
  readonly micros: number[];
}

await runProgram(run, usage);

async function run(): Promise<void> {
  const text = { type: "string" } as const;
  const options = { only: text, turns: text, "warm-up": text, against: text, profile: text };
  const { values } = parseArgs({ options });
  const turns = positive("turns", values.turns ?? "80");
  const warmUpTurns = positive("warm-up", values["warm-up"] ?? "100");
  const wanted = values.only?.split(",") ?? ["/none", "/latchkey", "/by-hand"];
  const chosen = subjects.filter(
    (subject) => guards.includes(subject.guard) && wanted.some((part) => nameOf(subject).includes(part)),
  );
  const checkouts = [root, ...(values.against === undefined ? [] : [resolve(values.against)])];
  const postgres = await startPostgres();
  await createSchema(postgres);
  const entries: Entry[] = [];
  for (const subject of chosen) {
    for (const checkout of subject.guard.startsWith("latchkey") ? checkouts : [root])
      entries.push(await start(subject, checkout, postgres, values.profile));
  }
  for (const entry of entries) await turn(entry, warmUpTurns);
  for (let round = 0; round < turns; round++) {
    // Every other round in reverse order, so that a drift during a round favours no entry.
    for (const entry of round % 2 === 0 ? entries : entries.toReversed())
      entry.micros.push(await turn(entry, 1));
  }
  console.log("| Endpoint | fastest µs | first quartile | median |\n| --- | --- | --- | --- |");
  for (const { name, micros, worker } of entries) {
    const sorted = micros.toSorted((left, right) => left - right);
    const cells = [0, 0.25, 0.5].map((share) => (sorted[Math.floor(sorted.length * share)] ?? 0).toFixed(1));
    console.log(`| ${[name, ...cells].join(" | ")} |`);
    await worker.kill("SIGTERM");
  }
}

async function createSchema(postgres: PrivatePostgres): Promise<void> {
  const pool = new pg.Pool({ connectionString: postgres.url });
  await pool.query(schema);
  await pool.query(byHandSchema);
  await migratePostgres(pool);
  await pool.end();
}

async function start(
  subject: Subject,
  checkout: string,
  postgres: PrivatePostgres,
  profile: string | undefined,
): Promise<Entry> {
  const { framework, job, guard } = subject;
  const name = checkout === root ? nameOf(subject) : `${nameOf(subject)} (other checkout)`;
  if (profile !== undefined) mkdirSync(profile, { recursive: true });
  const worker = spawnWorker(join(checkout, "bench/code/worker.ts"), {
    args: [framework, job, guard],
    env: { LATCHKEY_BENCH_POSTGRES: postgres.url, NODE_ENV: "production", NODE_OPTIONS: "" },
    execArgv:
      profile === undefined
        ? []
        : [
            "--cpu-prof",
            `--cpu-prof-dir=${resolve(profile)}`,
            `--cpu-prof-name=${name.replaceAll(/\W+/gu, "-")}.cpuprofile`,
          ],
  });
  await worker.ready(60_000);
  return { name, subject, worker, micros: [] };
}

async function turn({ subject, worker }: Entry, times: number): Promise<number> {
  const ask = performance.now();
  worker.send({ ask, count: requestsEachTurn[subject.job] * times });
  const { micros } = await worker.line((line) => line.replyTo === ask, 300_000);
  return Number(micros);
}
