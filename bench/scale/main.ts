/** `npm run bench:scale`: the effect of the number of records, the size of answers, the number of processes, and time. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import pg from "pg";
import { startPostgres } from "../../test/support/private-postgres.ts";
import { runProgram } from "../../test/support/program.ts";
import { databaseCpuMicros } from "../database-cpu.ts";
import { machineOf, positive, renderMachine, serverSettings } from "../machine.ts";
import { intoPage } from "../report.ts";
import { measureBodies } from "./bodies.ts";
import { measureChurn } from "./churn.ts";
import type { Scale } from "./measure.ts";
import { measureProcesses } from "./processes.ts";
import { measureRows } from "./rows.ts";

const root = resolve(import.meta.dirname, "../..");
const usage = `npm run bench:scale -- [--rows 10000,100000,1000000,10000000] [--rounds 5] [--seconds 5] [--churn-minutes 60]
    [--only rows,bodies,processes,churn] [--out docs]

With --only, results are written only to the folder of --out; otherwise, to docs/. Ten million records need 8 GB of disk.`;

const parts = {
  rows: measureRows,
  bodies: measureBodies,
  processes: measureProcesses,
  churn: measureChurn,
} as const satisfies Record<string, (scale: Scale) => Promise<string>>;
type Part = keyof typeof parts;
const isPart = (name: string): name is Part => Object.hasOwn(parts, name);

await runProgram(run, usage);

async function run(): Promise<void> {
  const args = process.argv.slice(2);
  const { only, out, ...options } = parseOptions(args);
  const [load = 0] = loadavg();
  const postgres = await startPostgres({
    conf: { ...serverSettings, shared_buffers: "1GB", max_wal_size: "4GB" },
  });
  const pool = new pg.Pool({ connectionString: postgres.url, max: 4 });
  pool.on("error", ({ message }) => console.error(message));
  await pool.query("create table orders (amount integer not null)");
  const databaseCpu = () => databaseCpuMicros(postgres.pid) ?? Number.NaN;
  const tables: string[] = [];
  const kept: Record<string, unknown> = {};
  const keep = (name: string, value: unknown) => {
    kept[name] = value;
  };
  for (const part of only)
    tables.push(await parts[part]({ ...options, url: postgres.url, pool, databaseCpu, keep }));
  await pool.end();
  const command = ["npm run bench:scale", ...(args.length > 0 ? ["--", ...args] : [])].join(" ");
  const date = new Date().toISOString().slice(0, 10);
  const machine = machineOf(postgres);
  const facts =
    `Measured on ${date} with \`${command}\`: requests by \`latchkey.run\`, one insert in ` +
    `each, without HTTP; ${options.rounds} alternating rounds of ${options.seconds} seconds for each cell; medians.\n\n` +
    `${renderMachine(machine)}, 1 GB of shared buffers. Load average before the run: ${load.toFixed(1)}.`;
  const page = [facts, ...tables].join("\n\n");
  console.log(page);
  if (out !== null) write(resolve(out), page, { date, command, machine, ...kept });
}

function parseOptions(args: readonly string[]) {
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    args: [...args],
    options: { rows: text, rounds: text, seconds: text, "churn-minutes": text, only: text, out: text },
  });
  const only = values.only?.split(",") ?? Object.keys(parts);
  const known = only.filter(isPart);
  if (known.length < only.length) {
    throw new TypeError(`--only must name some of ${Object.keys(parts).join(", ")} (got ${values.only})`);
  }
  return {
    rows: (values.rows ?? "10000,100000,1000000,10000000").split(",").map((value) => positive("rows", value)),
    rounds: Math.ceil(positive("rounds", values.rounds ?? "5")),
    seconds: positive("seconds", values.seconds ?? "5"),
    churnMinutes: positive("churn-minutes", values["churn-minutes"] ?? "60"),
    only: known,
    out: values.out ?? (values.only === undefined ? "docs" : null),
  };
}

function write(folder: string, measured: string, data: object): void {
  mkdirSync(folder, { recursive: true });
  const page = readFileSync(join(root, "docs/performance.md"), "utf8");
  writeFileSync(join(folder, "performance.md"), intoPage(page, measured, "scale"));
  writeFileSync(join(folder, "performance-scale.json"), `${JSON.stringify(data, null, 2)}\n`);
}
