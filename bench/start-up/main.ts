/** `npm run bench:start-up`: how long a new process takes to import Express, alone and with the built library. */
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { runProgram } from "../../test/support/program.ts";
import { positive } from "../machine.ts";

const root = resolve(import.meta.dirname, "../..");
const usage = "npm run bench:start-up -- [--rounds 15] [--out docs]";

const imports = {
  express: `await import("express");`,
  "express and latchkey/express": `await import("express"); await import("latchkey/express");`,
};
type Kind = keyof typeof imports;
const kinds = Object.keys(imports) as Kind[];

interface Start {
  readonly wallMs: number;
  readonly cpuMs: number;
}

await runProgram(run, usage);

async function run(): Promise<void> {
  const text = { type: "string" } as const;
  const { values } = parseArgs({ options: { rounds: text, out: text } });
  const rounds = Math.ceil(positive("rounds", values.rounds ?? "15"));
  const [load = 0] = loadavg();
  execFileSync("npm", ["run", "--silent", "build", "-w", "latchkey"], { cwd: root, stdio: "inherit" });
  for (const kind of kinds) startOf(kind); // Fills the system's file cache.
  const starts: Record<Kind, Start[]> = { express: [], "express and latchkey/express": [] };
  for (let round = 0; round < rounds; round += 1) {
    for (const kind of round % 2 === 0 ? kinds : kinds.toReversed()) starts[kind].push(startOf(kind));
  }
  const results = kinds.map((name) => ({
    name,
    wallMs: median(starts[name].map(({ wallMs }) => wallMs)),
    cpuMs: median(starts[name].map(({ cpuMs }) => cpuMs)),
  }));
  console.table(results);
  if (values.out === undefined) return;
  const command = ["npm run bench:start-up --", ...process.argv.slice(2)].join(" ");
  const date = new Date().toISOString().slice(0, 10);
  const folder = resolve(root, values.out);
  mkdirSync(folder, { recursive: true });
  const report = { date, command, load, results };
  writeFileSync(join(folder, "performance-start-up.json"), `${JSON.stringify(report, null, 2)}\n`);
}

/** Without the flag that makes other benches load the sources. */
function startOf(kind: Kind): Start {
  const script = `
    const [cpu, wall] = [process.cpuUsage(), performance.now()];
    ${imports[kind]}
    const { user, system } = process.cpuUsage(cpu);
    console.log(JSON.stringify({ wallMs: performance.now() - wall, cpuMs: (user + system) / 1_000 }));`;
  const output = execFileSync(process.execPath, ["--input-type=module", "--eval", script], {
    cwd: join(root, "packages/latchkey"),
    encoding: "utf8",
    env: { ...process.env, NODE_OPTIONS: "" },
  });
  return JSON.parse(output) as Start;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}
