import { join, resolve } from "node:path";
import { migratePostgres } from "latchkey/postgres";
import pg from "pg";
import { startPostgres } from "../../test/support/private-postgres.ts";
import { spawnWorker } from "../../test/support/processes.ts";
import { releaseAll } from "../../test/support/resources.ts";
import { schema } from "../http/jobs.ts";
import { byHandSchema } from "../http/peers/by-hand.ts";
import { serverSettings } from "../machine.ts";

const root = resolve(import.meta.dirname, "../..");
const args = process.argv.slice(2);
const only = (args[0] ?? "").split(",");
const slices = Number(args[1] ?? 40);
const roots = [root, ...args.slice(2)];
const postgres = await startPostgres({ conf: serverSettings });
const pool = new pg.Pool({ connectionString: postgres.url });
await pool.query(schema);
await pool.query("alter table orders alter id restart with 1000000");
await pool.query(byHandSchema);
await migratePostgres(pool);
await pool.end();

const workers = [];
for (const name of only) {
  for (const [index, from] of roots.entries()) {
    if (index > 0 && !name.includes("latchkey")) continue;
    const worker = spawnWorker(join(from, "bench/code/worker.ts"), {
      args: name.split("/"),
      env: { LATCHKEY_BENCH_POSTGRES: postgres.url, NODE_ENV: "production", NODE_OPTIONS: "" },
      execArgv: [],
    });
    await worker.ready(60_000);
    workers.push({
      name: index === 0 ? name : `${name} (${index})`,
      worker,
      job: name.split("/")[1],
      times: [] as number[],
      cpus: [] as number[],
    });
  }
}
let id = 0;
for (let slice = -8; slice < slices; slice++) {
  const order = slice % 2 === 0 ? workers : workers.toReversed();
  for (const one of order) {
    id += 1;
    const mine = id;
    const count = (one.job === "order" ? 300 : 1000) * (slice < 0 ? 12 : 1);
    one.worker.send({ run: count, id: mine, profile: slice === 0 && process.env.PROF !== undefined });
    const { micros, cpu } = (await one.worker.line((line) => line.id === mine, 120_000)) as {
      micros: number;
      cpu: number;
    };
    if (slice >= 0) {
      one.times.push(micros);
      one.cpus.push(cpu);
    }
  }
}
for (const { name, times, worker } of workers) {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (q: number) => sorted[Math.floor(sorted.length * q)]!.toFixed(1);
  console.log(name.padEnd(40), "min", at(0), "q10", at(0.1), "q25", at(0.25), "median", at(0.5));
  await worker.kill("SIGTERM");
}
await releaseAll();
