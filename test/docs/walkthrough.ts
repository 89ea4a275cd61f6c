/**
 * Follows a document from top to bottom as its reader would: writes its files, runs its commands on a database of its own,
 * and compares what comes back with what the document says. What it does not know how to run is an error, and so is what a
 * reader could not do: the terminal of a server that runs takes no commands until the text opens a second one, a variable
 * is there where it was exported, and a port is free when the text has stopped the server with Ctrl+C.
 */
import { execFile, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
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
import { Terminals } from "./terminals.ts";

interface Stage {
  readonly folder: string;
  readonly client: pg.Client;
  /** Where the service listens. */
  readonly port: number;
  readonly terminals: Terminals;
  /** The packages that the text has installed. */
  readonly installed: Set<string>;
  /** The package in each tarball that the text has packed. */
  readonly packed: Map<string, string>;
  server: WorkerProcess | null;
  provider: { readonly worker: WorkerProcess; readonly url: string } | null;
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
  const lines = text.split("\n");
  let read = 0;
  try {
    for (const block of readCodeBlocks(text)) {
      const prose = lines.slice(read, block.line - 1).join("\n");
      read = block.line + block.text.split("\n").length + 1;
      await listen(stage, prose)
        .then(() => play(stage, block))
        .catch((cause: unknown) => {
          const output = stage.server?.stderr() ?? "";
          throw new Error(
            `line ${block.line}: ${cause instanceof Error ? cause.message : cause}\n${output}`,
            {
              cause,
            },
          );
        });
      steps.push({ line: block.line, did: block.language });
    }
  } finally {
    await Promise.all([stage.server?.stop(), stage.provider?.worker.stop()]);
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
  const terminals = new Terminals({ DATABASE_URL: databaseUrl });
  const running = { server: null, provider: null, answer: null, printed: "" };
  const packages = { installed: new Set<string>(), packed: new Map<string, string>() };
  return { folder, client, port: await freePort(), terminals, ...packages, ...running };
}

/** What the text has its reader do beside typing what its blocks show. */
async function listen(stage: Stage, prose: string): Promise<void> {
  stage.terminals.listen(prose);
  if (!prose.includes("Ctrl+C")) return;
  if (stage.server === null) throw new Error("Ctrl+C, and no server runs");
  await stage.server.stop();
  endServer(stage, stage.server);
}

function endServer(stage: Stage, server: WorkerProcess): void {
  stage.terminals.end(server);
  stage.server = null;
}

async function play(stage: Stage, block: CodeBlock): Promise<void> {
  switch (block.language) {
    case "ts":
    case "sql":
      checkImports(stage, block.text);
      if (block.file === undefined) throw new Error("a file of a walkthrough needs <!-- file: … -->");
      writeFileSync(join(stage.folder, block.file), block.text);
      return;
    case "mermaid":
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

/** What a file imports must have been installed by the text: the repository has everything. */
function checkImports({ installed }: Stage, text: string): void {
  const names = [...text.matchAll(/^import [^"]*"([^".][^"]*)"/gmu)]
    .map(([, name = ""]) => /^(?:@[^/]+\/)?[^/]+/u.exec(name)?.[0] ?? "")
    .filter((name) => !name.startsWith("node:") && !installed.has(name));
  if (names.length > 0) throw new Error(`the text does not install ${[...new Set(names)].join(", ")}`);
}

async function run(stage: Stage, text: string): Promise<void> {
  const commandsOf = (line: string) => (line.startsWith("(") ? [line] : line.split(" && "));
  for (const command of text.split("\n").flatMap(commandsOf)) {
    if (command === packingInClone) {
      packInClone(stage);
      continue;
    }
    const [program = "", ...args] = wordsOf(command);
    const known = commands[program];
    if (known === undefined) throw new Error(`nobody knows how to run: ${command}`);
    stage.terminals.variables("last", []);
    await known(stage, args);
  }
}

const packingInClone = "(cd ../latchkey && npm install && npm pack -w latchkey)";

/** Packs nothing: `check:package` does. The tarball is the one that npm would name so. */
function packInClone({ packed }: Stage): void {
  const manifest = readFileSync(join(repositoryRoot, "packages/latchkey/package.json"), "utf8");
  const { version }: { readonly version: string } = JSON.parse(manifest);
  packed.set(`../latchkey/latchkey-${version}.tgz`, "latchkey");
}

const commands: Readonly<Record<string, (stage: Stage, args: readonly string[]) => Promise<void>>> = {
  async export({ terminals }, words) {
    terminals.export(words.join(" "));
  },
  async npm(stage, [verb = "", ...args]) {
    if (["init", "pkg"].includes(verb)) {
      await promisify(execFile)("npm", [verb, ...args], { cwd: stage.folder });
      return;
    }
    if (verb === "run") return startProvider(stage, args);
    const names = args.filter((word) => word !== "--save-dev").map((word) => stage.packed.get(word) ?? word);
    if (verb !== "install" || names.length === 0) throw new Error("only `npm install <packages>`");
    const missing = names.filter((name) => !existsSync(join(stage.folder, "node_modules", name)));
    if (missing.length > 0) throw new Error(`the repository has not installed ${missing.join(", ")}`);
    for (const name of names) stage.installed.add(name);
  },
  async npx(stage, [name, ...args]) {
    if (name !== "latchkey") throw new Error(`only \`npx latchkey\`, not ${name}`);
    const [into] = args.splice(args.indexOf(">") >= 0 ? args.indexOf(">") : args.length).slice(1);
    const main = join(repositoryRoot, "packages/latchkey/src/cli/main.ts");
    const env = stage.terminals.variables("last", ["DATABASE_URL"]);
    const options = { cwd: stage.folder, env: { ...process.env, ...env } };
    const { stdout } = await promisify(execFile)(process.execPath, [main, ...args], options);
    stage.printed = stdout;
    if (into !== undefined) writeFileSync(join(stage.folder, into), stdout);
  },
  async node(stage, args) {
    if (args[0] === "--test") return runTests(stage);
    if (stage.server !== null)
      throw new Error("the port is taken: the text has not stopped the other server");
    const [script = ""] = args;
    const exported = stage.terminals.variables("first", ["DATABASE_URL"]);
    const url = stage.provider?.url;
    const env = { ...exported, PORT: String(stage.port), ...(url !== undefined && { PROVIDER_URL: url }) };
    stage.server = spawnWorker(join(stage.folder, script), { cwd: stage.folder, env });
    stage.terminals.start(stage.server);
    await stage.server.line(({ text }) => String(text).startsWith("listening on port "), 30_000);
  },
  async curl(stage, args) {
    const provider = args.map((word) =>
      word.replace(/^localhost:4000/u, stage.provider?.url ?? "localhost:4000"),
    );
    const call = readCurl(provider, `http://localhost:${stage.port}`);
    if (!call.inBackground) {
      stage.answer = await sendCurl(call);
      return;
    }
    const before = chargesOf(stage);
    sendCurl(call).catch(() => {});
    const isBusy = async () => chargesOf(stage) > before || (await isSleeping(stage.client));
    await until(isBusy, { what: "a statement that sleeps, or a charge" });
  },
  async kill(stage, args) {
    if (args.join(" ") !== "-9 <process>") throw new Error("only `kill -9 <process>`");
    const printed = stage.server?.lines.flatMap(
      ({ text }) => /process (\d+)$/u.exec(String(text))?.[1] ?? [],
    );
    if (printed?.[0] !== String(stage.server?.pid))
      throw new Error("the server has not printed its process id");
    if (stage.server === null) return;
    await stage.server.kill("SIGKILL");
    endServer(stage, stage.server);
  },
  async psql(stage, args) {
    const [url, mode, words = ""] = args;
    if (url !== "$DATABASE_URL" || args.length !== 3)
      throw new Error('only `psql "$DATABASE_URL" <option> …`');
    stage.terminals.variables("last", ["DATABASE_URL"]);
    if (mode === "-f") await stage.client.query(readFileSync(join(stage.folder, words), "utf8"));
    else if (mode === "-c") await stage.client.query(words);
    else if (mode === "-Atc") stage.printed = await rowsAsText(stage.client, words);
    else throw new Error(`psql ${mode} is not known here`);
  },
};

/** On a port and a ledger of its own; what the text runs in a clone. */
async function startProvider(stage: Stage, args: readonly string[]): Promise<void> {
  if (args.join(" ") !== "provider -w latchkey-example-payments")
    throw new Error(`npm run ${args.join(" ")}?`);
  const env = { PROVIDER_PORT: "0", PROVIDER_LEDGER: join(stage.folder, "provider.jsonl") };
  const worker = spawnWorker(join(repositoryRoot, "examples/payments/provider.ts"), { env });
  stage.terminals.start(worker);
  stage.provider = { worker, url: String((await worker.ready()).url) };
}

function chargesOf({ provider }: Stage): number {
  return provider?.worker.lines.filter(({ signal }) => signal === "charged").length ?? 0;
}

async function rowsAsText(client: pg.Client, text: string): Promise<string> {
  const { rows } = await client.query<string[]>({ text, rowMode: "array" });
  return rows.map((row) => row.join("|")).join("\n");
}

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
  for (const [what, is, output] of expected) {
    if (!matches(is, output)) throw new Error(`${what}: the document says ${output}, it is ${is}`);
  }
  const replayed = answer.headers.has("idempotent-replayed");
  if (replayed !== shown.includes("Idempotent-Replayed")) throw new Error(`replayed: ${replayed}`);
}

function matches(text: string, pattern: string): boolean {
  const literal = pattern.split("…").map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/gu, "\\$&"));
  return new RegExp(`^${literal.join(".*")}$`, "su").test(text);
}
