/**
 * `npm run bench`: the cost of protection over HTTP, compared with the same endpoints without it and with other libraries.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { type PrivatePostgres, startPostgres } from "../test/support/private-postgres.ts";
import { startRedis } from "../test/support/private-redis.ts";
import { spawnWorker } from "../test/support/processes.ts";
import { runProgram } from "../test/support/program.ts";
import { databaseCpuMicros } from "./database-cpu.ts";
import { startServer } from "./http/server.ts";
import { isBaselineOf, nameOf, needsRedis, type Subject, subjects } from "./http/subject.ts";
import { machineOf, serverSettings } from "./machine.ts";
import { type BenchOptions, parseOptions, usage } from "./options.ts";
import { intoPage, type RunFacts, renderFacts, renderResults, summarize } from "./report.ts";
import { type Entry, firstWarmUpTurns, type Measurement, measure, warmUpShare } from "./run.ts";
import { createTables, inDatabase } from "./tables.ts";

const root = resolve(import.meta.dirname, "..");

await runProgram(() => run(parseOptions(process.argv.slice(2))), usage);

async function run(options: BenchOptions): Promise<void> {
  const postgres = await startPostgres({ conf: serverSettings });
  await createTables(postgres.url, root);
  const redis = select(options).some(needsRedis) ? ((await startRedis())?.url ?? null) : null;
  const { chosen, skipped } = choose(options, redis !== null);
  const url = await throughNetwork(postgres.url, options.rttMs);
  const envOf = (database: string) => ({
    LATCHKEY_BENCH_POSTGRES: inDatabase(url, database),
    LATCHKEY_BENCH_REDIS: redis ?? "",
  });
  const env = { here: envOf("postgres"), there: envOf("other_checkout") };
  if (options.against !== null) await createTables(postgres.url, resolve(options.against), "other_checkout");
  const entries = await startEntries(chosen, options, env);
  const { rounds, concurrencies, awake } = options;
  const turns = entries.length * (rounds * concurrencies.length * (1 + warmUpShare) + firstWarmUpTurns);
  const turnSeconds = (options.minutes * 60) / turns;
  const facts = factsOf({ rounds, turnSeconds, skipped }, postgres, redis !== null);
  console.log(`${renderFacts(facts)}\n`);

  const measurements: Measurement[] = [];
  const databaseCpu = () => databaseCpuMicros(postgres.pid);
  for await (const one of measure({ entries, rounds, concurrencies, turnSeconds, awake, databaseCpu })) {
    measurements.push(one);
    const { entry, round, concurrency, requestsPerSecond, serverMicros } = one;
    const where = entry.checkout === null ? "" : " (other checkout)";
    console.error(
      `${round} c=${concurrency} ${nameOf(entry.subject)}${where}: ${requestsPerSecond.toFixed(0)}/s, ${serverMicros.toFixed(0)} µs`,
    );
  }
  for (const { server } of entries) await server.stop();
  const results = summarize(measurements);
  console.log(renderResults(results));
  if (options.out !== null) {
    const folder = resolve(options.out);
    write(folder, `${renderFacts(facts)}\n\n${renderResults(results)}`, { ...facts, results });
  }
}

/** The URL under which the servers reach the database. */
async function throughNetwork(url: string, rttMs: number): Promise<string> {
  if (rttMs === 0) return url;
  const near = new URL(url);
  const network = spawnWorker(join(root, "bench/network-process.ts"), { args: [near.port, String(rttMs)] });
  near.port = String((await network.ready()).port);
  return near.href;
}

/** @throws {TypeError} if nothing is selected */
function select({ only }: BenchOptions): readonly Subject[] {
  const selected = subjects.filter(
    (subject) => only.length === 0 || only.some((text) => nameOf(subject).includes(text)),
  );
  if (selected.length === 0) throw new TypeError(`--only ${only.join(",")} matches nothing`);
  return selected;
}

function choose(options: BenchOptions, hasRedis: boolean) {
  const wanted = select(options);
  const because = (subject: Subject) =>
    needsRedis(subject) && !hasRedis ? "redis-server is not installed" : null;
  const runnable = wanted.filter((subject) => because(subject) === null);
  return {
    chosen: subjects.filter((subject) =>
      runnable.some((one) => one === subject || isBaselineOf(subject, one)),
    ),
    skipped: wanted.flatMap((subject) => {
      const reason = because(subject);
      return reason === null ? [] : [{ subject: nameOf(subject), because: reason }];
    }),
  };
}

async function startEntries(
  chosen: readonly Subject[],
  { against, profile }: BenchOptions,
  env: Readonly<Record<"here" | "there", Readonly<Record<string, string>>>>,
): Promise<Entry[]> {
  const profileDir = profile === null ? undefined : resolve(profile);
  const entries = chosen.flatMap((subject) => {
    const here = { subject, checkout: null, options: { root, env: env.here, profileDir } };
    if (against === null || !subject.guard.startsWith("latchkey")) return [here];
    return [here, { subject, checkout: against, options: { root: resolve(against), env: env.there } }];
  });
  return Promise.all(
    entries.map(async ({ subject, checkout, options }) => ({
      subject,
      checkout,
      server: await startServer(subject, options),
    })),
  );
}

function factsOf(
  run: Pick<RunFacts, "rounds" | "turnSeconds" | "skipped">,
  postgres: PrivatePostgres,
  redis: boolean,
): RunFacts {
  const args = process.argv.slice(2);
  return {
    ...run,
    date: new Date().toISOString().slice(0, 10),
    command: ["npm run bench", ...(args.length > 0 ? ["--", ...args] : [])].join(" "),
    machine: { ...machineOf(postgres), redis },
  };
}

function write(folder: string, measured: string, data: object): void {
  mkdirSync(folder, { recursive: true });
  const page = readFileSync(join(root, "docs/performance.md"), "utf8");
  writeFileSync(join(folder, "performance.md"), intoPage(page, measured));
  writeFileSync(join(folder, "performance.json"), `${JSON.stringify(data, null, 2)}\n`);
}
