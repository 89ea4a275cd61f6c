/**
 * `npm run trace`: how many files and functions of the library one request, and one delivery, enter in a warm process,
 * beside their limits.
 */
import { join } from "node:path";
import { parseArgs } from "node:util";
import { runProgram } from "../test/support/program.ts";
import { Coverage, type EnteredFile } from "./support/entered.ts";
import { repositoryRoot } from "./support/repository.ts";
import { renderTable } from "./support/sections.ts";
import { type JobName, jobNames, limits, startJobs, type TracedJobs } from "./support/traced-jobs.ts";

const usage = `npm run trace -- [--list ${jobNames.join("|")}] [--json]

Without --list: files, functions and calls of each job. A function counts once, however many closures of it are made;
calls of it are counted as V8 does, which counts an async function again each time that it goes on after an await.
With --list: the files of one job in the order in which they are entered first, with their functions.`;

/** Until connections are open, statements have their names and lazy parts are loaded. */
const warmUps = 20;

const titles: Readonly<Record<JobName, string>> = {
  first: "first request, `transaction`",
  replay: "replay of it",
  lease: "first request, `lease`",
  delivery: "one outbox delivery",
};

await runProgram(run, usage);

async function run(): Promise<void> {
  const { list, json } = parseOptions(process.argv.slice(2));
  const coverage = new Coverage(join(repositoryRoot, "packages/latchkey/src"));
  await coverage.start();
  const jobs = await startJobs();
  try {
    const result = await (list === undefined ? measureAll(coverage, jobs) : listOne(coverage, jobs, list));
    if (json) console.log(JSON.stringify(result, null, 2));
    else console.log("length" in result ? renderFiles(result) : renderCounts(result));
  } finally {
    await jobs.close();
    coverage.stop();
  }
}

function parseOptions(args: readonly string[]): { list: JobName | undefined; json: boolean } {
  const { values } = parseArgs({
    args: [...args],
    options: { list: { type: "string" }, json: { type: "boolean" } },
  });
  const list = jobNames.find((name) => name === values.list);
  if (values.list !== undefined && list === undefined) throw new TypeError(`There is no job ${values.list}`);
  return { list, json: values.json ?? false };
}

interface Counts {
  readonly files: number;
  readonly functions: number;
  readonly calls: number;
  readonly limit: { readonly files: number; readonly functions: number };
}

async function measureAll(coverage: Coverage, jobs: TracedJobs): Promise<Record<JobName, Counts>> {
  const measured: Partial<Record<JobName, Counts>> = {};
  for (const job of jobNames) {
    await warmUp(jobs, job);
    const files = await coverage.during(() => jobs.prepare(job));
    measured[job] = { ...countsOf(files), limit: limits[job] };
  }
  return measured as Record<JobName, Counts>;
}

async function listOne(coverage: Coverage, jobs: TracedJobs, job: JobName): Promise<readonly EnteredFile[]> {
  await warmUp(jobs, job);
  return coverage.inOrder(() => jobs.prepare(job));
}

async function warmUp(jobs: TracedJobs, job: JobName): Promise<void> {
  for (let done = 0; done < warmUps; done++) await (await jobs.prepare(job))();
}

function countsOf(files: readonly EnteredFile[]): Omit<Counts, "limit"> {
  const functions = files.flatMap((file) => file.functions);
  return {
    files: files.length,
    functions: functions.length,
    calls: functions.reduce((sum, { calls }) => sum + calls, 0),
  };
}

function renderCounts(measured: Readonly<Record<JobName, Counts>>): string {
  return renderTable(
    ["Job", "Files", "Functions", "Calls", "Limit: files, functions"],
    jobNames.map((job) => {
      const { files, functions, calls, limit } = measured[job];
      return [
        titles[job],
        String(files),
        String(functions),
        String(calls),
        `${limit.files}, ${limit.functions}`,
      ];
    }),
  );
}

function renderFiles(files: readonly EnteredFile[]): string {
  return files
    .map(({ path, functions }, index) => {
      const names = functions.map(({ name, line, calls }) => {
        const often = calls > 1 ? ` ×${calls}` : "";
        return `${name}:${line}${often}`;
      });
      return `${index + 1}. ${path}\n   ${names.join(", ")}`;
    })
    .join("\n");
}
