/** `npm run bench:dispatch`: how fast an outbox is delivered, and how soon a worker wakes, compared with two job queues. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { startPostgres } from "../../test/support/private-postgres.ts";
import { runProgram } from "../../test/support/program.ts";
import { databaseCpuMicros } from "../database-cpu.ts";
import { machineOf, positive, renderMachine, serverSettings } from "../machine.ts";
import { intoPage } from "../report.ts";
import { renderDispatch, summarizeDispatch } from "./report.ts";
import { type DispatchMeasurement, measureDispatch } from "./run.ts";
import { type QueueName, queueNames } from "./subject.ts";

const root = resolve(import.meta.dirname, "../..");
const usage = `npm run bench:dispatch -- [--rounds 3] [--backlog 60000] [--singles 200] [--only "latchkey;pg-boss"] [--out docs]

With --only, results are written only to the folder of --out; otherwise, to docs/.`;

await runProgram(run, usage);

async function run(): Promise<void> {
  const options = parseOptions(process.argv.slice(2));
  const [load = 0] = loadavg();
  const postgres = await startPostgres({ conf: serverSettings });
  const measurements: DispatchMeasurement[] = [];
  const databaseCpu = () => databaseCpuMicros(postgres.pid);
  for await (const one of measureDispatch({ ...options, url: postgres.url, databaseCpu })) {
    measurements.push(one);
    console.error(`${one.round} ${one.name}: ${one.jobsPerSecond?.toFixed(0) ?? "-"} jobs/s`);
  }
  const results = summarizeDispatch(measurements);
  const args = process.argv.slice(2);
  const command = ["npm run bench:dispatch", ...(args.length > 0 ? ["--", ...args] : [])].join(" ");
  const machine = machineOf(postgres);
  const date = new Date().toISOString().slice(0, 10);
  const facts =
    `Measured on ${date} with \`${command}\`: ${options.rounds} rounds, medians; a backlog of ${options.backlog} jobs ` +
    `that do nothing, processed by one process; then single jobs, timed from the call that adds one in another process ` +
    `to the start of its handler (wake-up); then single requests for deferred work, timed from the request until its ` +
    `finished answer is read, with the work done by another process (answered).\n\n${renderMachine(machine)}. Load average before the run: ${load.toFixed(1)}.`;
  const page = `${facts}\n\n${renderDispatch(results)}`;
  console.log(page);
  if (options.out !== null) write(resolve(options.out), page, { date, command, machine, results });
}

function parseOptions(args: readonly string[]) {
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    args: [...args],
    options: { rounds: text, backlog: text, singles: text, only: text, out: text },
  });
  const only = values.only?.split(";") ?? [];
  const names = queueNames.filter((name) => only.length === 0 || only.includes(name));
  if (names.length === 0) throw new TypeError(`--only ${values.only} matches nothing`);
  return {
    names: names as readonly QueueName[],
    rounds: Math.ceil(positive("rounds", values.rounds ?? "3")),
    backlog: Math.ceil(positive("backlog", values.backlog ?? "60000")),
    singles: Math.ceil(positive("singles", values.singles ?? "200")),
    out: values.out ?? (only.length === 0 ? "docs" : null),
  };
}

function write(folder: string, measured: string, data: object): void {
  mkdirSync(folder, { recursive: true });
  const page = readFileSync(join(root, "docs/performance.md"), "utf8");
  writeFileSync(join(folder, "performance.md"), intoPage(page, measured, "dispatch"));
  writeFileSync(join(folder, "performance-dispatch.json"), `${JSON.stringify(data, null, 2)}\n`);
}
