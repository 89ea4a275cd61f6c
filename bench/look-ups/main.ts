/** `npm run bench:look-ups`: the look-up of a replay on Postgres, compared with one SELECT of the pool for each. */
import { loadavg } from "node:os";
import { parseArgs } from "node:util";
import { createLatchkey } from "latchkey";
import { migratePostgres, postgresStore } from "latchkey/postgres";
import pg from "pg";
import { startPostgres } from "../../test/support/private-postgres.ts";
import { runProgram } from "../../test/support/program.ts";
import { databaseCpuMicros } from "../database-cpu.ts";
import { machineOf, positive, renderMachine, serverSettings } from "../machine.ts";
import { median } from "../report.ts";

const usage = "npm run bench:look-ups -- [--rounds 8] [--seconds 2]";
/** `pg`'s default. */
const poolSize = 10;
const recordCount = 1_000;
const concurrencies = [1, 4, 8, 16, 32];
const select =
  "select state, fingerprint, answer from latchkey.records where tenant = $1 and scope = $2 and key = $3";
const scope = "answers.create";

const byHand = "one `pool.query` each";

type Way = (key: string) => Promise<unknown>;

interface Turn {
  readonly perSecond: number;
  readonly processMicros: number;
  readonly databaseMicros: number;
}

await runProgram(run, usage);

async function run(): Promise<void> {
  const text = { type: "string" } as const;
  const { values } = parseArgs({ options: { rounds: text, seconds: text } });
  const rounds = Math.ceil(positive("rounds", values.rounds ?? "8"));
  const seconds = positive("seconds", values.seconds ?? "2");
  const [load = 0] = loadavg();
  const postgres = await startPostgres({ conf: serverSettings });
  const pool = new pg.Pool({ connectionString: postgres.url, max: poolSize });
  const ways = await prepare(pool);
  const turns = new Map<string, Turn[]>();
  for (let round = 0; round <= rounds; round += 1) {
    for (const concurrency of concurrencies) {
      for (const [name, way] of round % 2 === 0 ? ways : ways.toReversed()) {
        const turn = await measure(way, concurrency, seconds * 1_000, () => databaseCpuMicros(postgres.pid));
        // The first round compiles the code.
        const row = `${concurrency} | ${name}`;
        if (round > 0) turns.set(row, [...(turns.get(row) ?? []), turn]);
      }
    }
  }
  console.log(
    `Measured on ${new Date().toISOString().slice(0, 10)} with \`npm run bench:look-ups -- --rounds ${rounds} --seconds ${seconds}\`: ` +
      `${rounds} rounds in turn, medians; ${recordCount} records, ${poolSize} connections.\n\n` +
      `${renderMachine(machineOf(postgres))}. Load average before it began: ${load.toFixed(1)}.\n\n${table(turns)}`,
  );
  await pool.end();
  await postgres.stop();
}

/** Each way to look up the records that it has stored. */
async function prepare(pool: pg.Pool): Promise<readonly (readonly [name: string, way: Way])[]> {
  await migratePostgres(pool);
  const store = postgresStore({ pool });
  const latchkey = createLatchkey({ store });
  const operation = latchkey.operation(scope, { writes: "none" });
  const answer = { id: 4711, item: "book", amount: 42, status: "accepted", currency: "EUR" };
  for (let n = 0; n < recordCount; n += 1) {
    await latchkey.run(operation, { tenant: "t", key: keyOf(n), input: null }, async () => answer);
  }
  const found = await store.read({ tenant: "t", scope, key: keyOf(0) });
  if (found.record?.state !== "completed") throw new Error("The record was not found");
  return [
    [byHand, (key) => pool.query(select, ["t", scope, key])],
    ["the same, prepared", (key) => pool.query({ name: "by_hand", text: select, values: ["t", scope, key] })],
    ["**Latchkey**", (key) => store.read({ tenant: "t", scope, key })],
  ];
}

function keyOf(n: number): string {
  return `key-${n % recordCount}`;
}

async function measure(
  way: Way,
  concurrency: number,
  forMs: number,
  databaseCpu: () => number | null,
): Promise<Turn> {
  let count = 0;
  const [cpu, database, beganMs] = [process.cpuUsage(), databaseCpu(), performance.now()];
  const client = async () => {
    while (performance.now() < beganMs + forMs) {
      count += 1;
      await way(keyOf(count));
    }
  };
  await Promise.all(Array.from({ length: concurrency }, client));
  const [{ user, system }, databaseAfter] = [process.cpuUsage(cpu), databaseCpu()];
  return {
    perSecond: count / ((performance.now() - beganMs) / 1_000),
    processMicros: (user + system) / count,
    databaseMicros: ((databaseAfter ?? Number.NaN) - (database ?? Number.NaN)) / count,
  };
}

function table(turns: ReadonlyMap<string, readonly Turn[]>): string {
  const rows = [...turns].map(([row, all]) => {
    const [concurrency] = row.split(" | ");
    const baseline = turns.get(`${concurrency} | ${byHand}`) ?? [];
    const ratio = median(
      all.map(({ perSecond }, round) => perSecond / (baseline[round]?.perSecond ?? Number.NaN)),
    );
    const of = (pick: (turn: Turn) => number) => median(all.map(pick)).toFixed(0);
    return `| ${row} | ${of((turn) => turn.perSecond)} | ${ratio.toFixed(2)} | ${of((turn) => turn.processMicros)} | ${of((turn) => turn.databaseMicros)} |`;
  });
  const head = "| At once | Look-up | look-ups/s | ratio | process CPU µs | database CPU µs |";
  return [head, "| --- | --- | --- | --- | --- | --- |", ...rows].join("\n");
}
