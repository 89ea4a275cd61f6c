/**
 * Follows a document from top to bottom as its reader would: writes its files, runs its commands and SQL on a database of
 * its own, and compares what comes back with what the document says. What it does not know how to run is an error.
 */
import { execFile, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { type CodeBlock, readCodeBlocks } from "../../scripts/support/markdown.ts";
import { repositoryRoot } from "../../scripts/support/repository.ts";
import { freePort } from "../support/postgres-cluster.ts";
import { spawnWorker, type WorkerProcess } from "../support/processes.ts";
import { scratchDirectory } from "../support/scratch.ts";
import { until } from "../support/until.ts";
import { type CurlAnswer, readCurl, sendCurl, wordsOf } from "./curl.ts";

interface Stage {
  readonly folder: string;
  readonly client: pg.Client;
  readonly env: Readonly<Record<string, string>>;
  server: WorkerProcess | null;
  /** What the last command printed, or answered. */
  answer: CurlAnswer | null;
  printed: string;
}

export interface Step {
  readonly line: number;
  /** The block's language. */
  readonly did: string;
}

/** @throws {Error} naming the document's line at which something is not as it says */
export async function follow(text: string, databaseUrl: string): Promise<readonly Step[]> {
  const stage = await open(databaseUrl);
  const steps: Step[] = [];
  try {
    for (const block of readCodeBlocks(text)) {
      await play(stage, block).catch((cause: unknown) => {
        const said = stage.server?.stderr() ?? "";
        throw new Error(`line ${block.line}: ${cause instanceof Error ? cause.message : cause}\n${said}`, {
          cause,
        });
      });
      steps.push({ line: block.line, did: block.language });
    }
  } finally {
    await stage.server?.stop();
    await stage.client.end();
    rmSync(stage.folder, { recursive: true });
  }
  return steps;
}

async function open(databaseUrl: string): Promise<Stage> {
  const folder = scratchDirectory("us");
  mkdirSync(folder, { recursive: true });
  symlinkSync(join(repositoryRoot, "node_modules"), join(folder, "node_modules"), "dir");
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  const env = { DATABASE_URL: databaseUrl, PORT: String(await freePort()) };
  return { folder, client, env, server: null, answer: null, printed: "" };
}

async function play(stage: Stage, block: CodeBlock): Promise<void> {
  switch (block.language) {
    case "ts":
      if (block.file === undefined) throw new Error("a ts block of a walkthrough needs <!-- file: … -->");
      writeFileSync(join(stage.folder, block.file), block.text);
      return;
    case "sql":
      await stage.client.query(block.text);
      return;
    case "sh":
      await run(stage, block.text.replaceAll("\\\n", " ").trim());
      return;
    case "http":
      compareAnswer(stage.answer, block.text);
      return;
    case "text":
      if (stage.printed.trim() !== block.text.trim()) throw new Error(`printed ${stage.printed}`);
      return;
    default:
      throw new Error(`nobody knows how to follow a block of ${block.language}`);
  }
}

async function run(stage: Stage, line: string): Promise<void> {
  for (const command of line.split(" && ")) {
    const [program = "", ...args] = wordsOf(command);
    const known = commands[program];
    if (known === undefined || command.includes("\n")) throw new Error(`nobody knows how to run: ${command}`);
    await known(stage, args);
  }
}

const commands: Readonly<Record<string, (stage: Stage, args: readonly string[]) => Promise<void>>> = {
  async npm(stage, [verb = "", ...args]) {
    if (["init", "pkg"].includes(verb)) {
      await promisify(execFile)("npm", [verb, ...args], { cwd: stage.folder });
      return;
    }
    const names = args.filter((word) => word !== "--save-dev");
    if (verb !== "install" || names.length === 0) throw new Error("only `npm install <packages>`");
    const missing = names.filter((name) => !existsSync(join(stage.folder, "node_modules", name)));
    if (missing.length > 0) throw new Error(`the repository has not installed ${missing.join(", ")}`);
  },
  async npx(stage, [name, ...args]) {
    if (name !== "latchkey") throw new Error(`only \`npx latchkey\`, not ${name}`);
    const [into] = args.splice(args.indexOf(">") >= 0 ? args.indexOf(">") : args.length).slice(1);
    const main = join(repositoryRoot, "packages/latchkey/src/cli/main.ts");
    const { env } = stage;
    const options = { cwd: stage.folder, env: { ...process.env, ...env } };
    const { stdout } = await promisify(execFile)(process.execPath, [main, ...args], options);
    stage.printed = stdout;
    if (into !== undefined) writeFileSync(join(stage.folder, into), stdout);
  },
  async node(stage, args) {
    if (args[0] === "--test") return runTests(stage);
    await stage.server?.stop();
    const [script = ""] = args;
    stage.server = spawnWorker(join(stage.folder, script), { cwd: stage.folder, env: stage.env });
    await stage.server.line(({ text }) => String(text).startsWith("listening on port "), 30_000);
  },
  async curl(stage, args) {
    const call = readCurl(args, `http://localhost:${stage.env.PORT}`);
    if (!call.inBackground) {
      stage.answer = await sendCurl(call);
      return;
    }
    sendCurl(call).catch(() => {});
    await until(() => isSleeping(stage.client), { what: "a statement that sleeps" });
  },
  async pkill(stage, args) {
    if (args.join(" ") !== "-9 -f server.ts") throw new Error("only `pkill -9 -f server.ts`");
    await stage.server?.kill("SIGKILL");
    stage.server = null;
  },
  async psql(stage, args) {
    const [url, mode, query = ""] = args;
    if (url !== "$DATABASE_URL" || mode !== "-Atc") throw new Error('only `psql "$DATABASE_URL" -Atc "…"`');
    const { rows } = await stage.client.query<string[]>({ text: query, rowMode: "array" });
    stage.printed = rows.map((row) => row.join("|")).join("\n");
  },
};

async function isSleeping(client: pg.Client): Promise<boolean> {
  const asleep = "select from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'";
  return (await client.query(asleep)).rows.length === 1;
}

function runTests({ folder }: Stage): void {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const { status, stdout, stderr } = spawnSync(process.execPath, ["--conditions=latchkey-source", "--test"], {
    cwd: folder,
    env,
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(`node --test ended with ${status}:\n${stdout}${stderr}`);
  if (!/^. pass [1-9]/mu.test(stdout)) throw new Error(`node --test found no tests:\n${stdout}`);
}

/** Every line that the document shows must be there; `…` stands for anything. */
function compareAnswer(answer: CurlAnswer | null, shown: string): void {
  if (answer === null) throw new Error("no answer to compare with");
  const [head = "", ...rest] = shown.split("\n\n");
  const [statusLine = "", ...headers] = head.split("\n");
  const expected: readonly (readonly [what: string, is: string, shown: string])[] = [
    ["status line", answer.statusLine, statusLine],
    ...headers.map((line) => {
      const [name = ""] = line.split(": ");
      return [name, `${name}: ${answer.headers.get(name.toLowerCase()) ?? "(none)"}`, line] as const;
    }),
    ...(rest.length === 0 ? [] : [["body", answer.body, rest.join("\n\n")] as const]),
  ];
  for (const [what, is, said] of expected) {
    if (!matches(is, said)) throw new Error(`${what}: the document says ${said}, it is ${is}`);
  }
  const replayed = answer.headers.has("idempotent-replayed");
  if (replayed !== shown.includes("Idempotent-Replayed")) throw new Error(`replayed: ${replayed}`);
}

function matches(text: string, pattern: string): boolean {
  const literal = pattern.split("…").map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/gu, "\\$&"));
  return new RegExp(`^${literal.join(".*")}$`, "su").test(text);
}
