/**
 * `npm run bench:store`: replays from Postgres beside one pooled SELECT each, and reservation and end of a lease beside two
 * pooled statements, all by calls in one process, without HTTP.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { createLatchkey } from "latchkey";
import { migratePostgres, postgresStore } from "latchkey/postgres";
import pg from "pg";
import { startPostgres } from "../../test/support/private-postgres.ts";
import { runProgram } from "../../test/support/program.ts";
import { databaseCpuMicros } from "../database-cpu.ts";
import { byHandSchema } from "../http/peers/by-hand.ts";
import { machineOf, positive, renderMachine, serverSettings } from "../machine.ts";
import { intoPage } from "../report.ts";
import { alternate, type Measured, measuredCells, measuredHead, table } from "../scale/measure.ts";

const root = resolve(import.meta.dirname, "../..");
const usage = "npm run bench:store -- [--rounds 8] [--seconds 1] [--concurrency 32] [--out docs]";
const poolSize = 10;
const tenant = "bench";
const input = { account: 1, item: "book", amount: 42 };
const answer = { id: 4711, item: "book", amount: 42, status: "accepted", currency: "EUR" };
const keys = Array.from({ length: 200 }, (_, number) => `key-${number}`);

/** Each with what it is compared with. */
const baselines = {
  "one pooled SELECT": null,
  replay: "one pooled SELECT",
  "two pooled statements": null,
  lease: "two pooled statements",
} as const satisfies Record<string, string | null>;
type Kind = keyof typeof baselines;
const kinds = Object.keys(baselines) as Kind[];

await runProgram(run, usage);

async function run(): Promise<void> {
  const text = { type: "string" } as const;
  const { values } = parseArgs({ options: { rounds: text, seconds: text, concurrency: text, out: text } });
  const rounds = Math.ceil(positive("rounds", values.rounds ?? "8"));
  const seconds = positive("seconds", values.seconds ?? "1");
  const concurrency = Math.ceil(positive("concurrency", values.concurrency ?? "32"));
  const [load = 0] = loadavg();
  const postgres = await startPostgres({ conf: serverSettings });
  const pool = new pg.Pool({ connectionString: postgres.url, max: poolSize });
  const { calls, close } = await prepare(pool);
  const databaseCpu = () => databaseCpuMicros(postgres.pid) ?? Number.NaN;
  const measured = await alternate(kinds, rounds, (kind) =>
    turn(calls[kind], concurrency, seconds, databaseCpu),
  );
  await close();
  await pool.end();
  const results = kinds.map((name) => resultOf(name, measured));
  const args = process.argv.slice(2);
  const command = ["npm run bench:store", ...(args.length > 0 ? ["--", ...args] : [])].join(" ");
  const machine = machineOf(postgres);
  const date = new Date().toISOString().slice(0, 10);
  const rows = results.map(({ name, ratio, ...numbers }) => [
    baselines[name] === null ? name : `**${name}**`,
    ratio?.toFixed(2) ?? "1",
    ...measuredCells(numbers),
  ]);
  const facts =
    `Measured on ${date} with \`${command}\`: ${rounds} alternating rounds of ${seconds} s, medians; ${concurrency} calls at a time on ` +
    `${poolSize} connections.\n\n${renderMachine(machine)}. Load average before the run: ${load.toFixed(1)}.`;
  const page = table(facts, ["Call", "ratio", ...measuredHead], rows);
  console.log(page);
  if (values.out !== undefined || args.length === 0) {
    write(resolve(values.out ?? "docs"), page, { date, command, machine, concurrency, results });
  }
}

async function prepare(pool: pg.Pool) {
  await migratePostgres(pool);
  await pool.query(byHandSchema);
  const text = JSON.stringify(answer);
  await pool.query("insert into by_hand select $1, key, '', 201, $2 from unnest($3::text[]) key", [
    tenant,
    text,
    keys,
  ]);
  const latchkey = createLatchkey({ store: postgresStore({ pool }) });
  const stored = latchkey.operation("answers.create", { writes: "none" });
  const leased = latchkey.operation("answers.send", { execution: "lease" });
  for (const key of keys) await latchkey.run(stored, { tenant, key, input }, async () => answer);
  let count = 0;
  const next = () => {
    count += 1;
    return count;
  };
  const oldKey = () => keys[next() % keys.length] ?? "";
  const calls: Record<Kind, () => Promise<unknown>> = {
    "one pooled SELECT": () =>
      pool.query("select fingerprint, status, text from by_hand where tenant = $1 and key = $2", [
        tenant,
        oldKey(),
      ]),
    replay: async () => {
      const { kind } = await latchkey.run(stored, { tenant, key: oldKey(), input }, async () => answer);
      if (kind !== "replay") throw new Error(`A repetition was ${kind}`);
    },
    "two pooled statements": async () => {
      const key = `new-${next()}`;
      await pool.query(
        "insert into by_hand (tenant, key, fingerprint) values ($1, $2, $3) on conflict do nothing",
        [tenant, key, ""],
      );
      await pool.query("update by_hand set status = 201, text = $3 where tenant = $1 and key = $2", [
        tenant,
        key,
        text,
      ]);
    },
    lease: async () => {
      const request = { tenant, key: `new-${next()}`, input };
      const { kind } = await latchkey.run(leased, request, async () => answer);
      if (kind !== "executed") throw new Error(`A first call was ${kind}`);
    },
  };
  return { calls, close: () => latchkey.close() };
}

async function turn(
  call: () => Promise<unknown>,
  concurrency: number,
  seconds: number,
  databaseCpu: () => number,
): Promise<Measured> {
  const latenciesMs: number[] = [];
  const [cpu, database, beginMs] = [process.cpuUsage(), databaseCpu(), performance.now()];
  const caller = async () => {
    while (performance.now() < beginMs + seconds * 1_000) {
      const beganMs = performance.now();
      await call();
      latenciesMs.push(performance.now() - beganMs);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, caller));
  const tookMs = performance.now() - beginMs;
  const { user, system } = process.cpuUsage(cpu);
  const count = latenciesMs.length;
  const databaseMicros = (databaseCpu() - database) / count;
  latenciesMs.sort((left, right) => left - right);
  const at = (share: number) => latenciesMs[Math.min(count - 1, Math.floor(count * share))] ?? Number.NaN;
  return {
    perSecond: (count * 1_000) / tookMs,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    processMicros: (user + system) / count,
    databaseMicros,
  };
}

function resultOf(name: Kind, measured: ReadonlyMap<Kind, Measured>) {
  const own = measured.get(name);
  if (own === undefined) throw new Error(`${name} was not measured`);
  const baseline = baselines[name];
  const other = baseline === null ? undefined : measured.get(baseline);
  return { name, ratio: other === undefined ? null : own.perSecond / other.perSecond, ...own };
}

function write(folder: string, measured: string, data: object): void {
  mkdirSync(folder, { recursive: true });
  const page = readFileSync(join(root, "docs/performance.md"), "utf8");
  writeFileSync(join(folder, "performance.md"), intoPage(page, measured, "store"));
  writeFileSync(join(folder, "performance-store.json"), `${JSON.stringify(data, null, 2)}\n`);
}
