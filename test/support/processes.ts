import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { freezeProcess, identify, killTree, thawProcess } from "./process-tree.ts";
import { onRelease } from "./resources.ts";
import { deferred, within } from "./until.ts";
import { watchProcess } from "./watchdog.ts";

/** One line of JSON from a worker. */
export type WorkerLine = Readonly<Record<string, unknown>>;

export interface WorkerExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface WorkerOptions {
  args?: readonly string[];
  /** On top of this process's variables. */
  env?: Readonly<Record<string, string>>;
  cwd?: string;
  /** Options of Node itself, before the script. */
  execArgv?: readonly string[];
  /** Another runtime, with its options before the script. Default: this Node. */
  command?: readonly [string, ...string[]];
}

/** Tells a line apart; for example `(line) => line.ready === true`. */
export type LineMatch = (line: WorkerLine) => boolean;

/** A Node process that speaks JSON lines: on stdout to the test, on stdin from it. */
export class WorkerProcess {
  /** Every line it has written so far. A line that is not a JSON object appears as `{ text }`. */
  readonly lines: WorkerLine[] = [];
  readonly exited: Promise<WorkerExit>;
  readonly #child: ChildProcess;
  readonly #waiting = new Set<(line: WorkerLine) => void>();
  #stderr = "";

  /** Use `spawnWorker`. */
  constructor(child: ChildProcess) {
    this.#child = child;
    const exited = deferred<WorkerExit>();
    this.exited = exited.promise;
    child.once("error", exited.reject);
    child.once("close", (code, signal) => exited.resolve({ code, signal }));
    child.stdin?.on("error", () => {});
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#stderr += text;
    });
    if (child.stdout) createInterface({ input: child.stdout }).on("line", (text) => this.#receive(text));
  }

  #receive(text: string): void {
    const line = parseLine(text);
    this.lines.push(line);
    for (const wake of this.#waiting) wake(line);
  }

  get pid(): number {
    if (!this.#child.pid) throw new Error(`${this.#child.spawnfile} could not be started`);
    return this.#child.pid;
  }

  stderr(): string {
    return this.#stderr;
  }

  /** The first line that matches, already received or to come. Fails with its stderr when the worker ends first. */
  async line(match: LineMatch, timeoutMs?: number): Promise<WorkerLine> {
    const before = this.lines.find(match);
    if (before) return before;
    const found = deferred<WorkerLine>();
    const wake = (line: WorkerLine) => match(line) && found.resolve(line);
    this.#waiting.add(wake);
    void this.exited.then((exit) => found.reject(this.#ended(match, exit)), found.reject);
    try {
      return await within(found.promise, `a line of the worker that matches ${match}`, timeoutMs);
    } finally {
      this.#waiting.delete(wake);
    }
  }

  #ended(match: LineMatch, exit: WorkerExit): Error {
    const how = exit.signal ?? `code ${exit.code}`;
    return new Error(`the worker ended (${how}) before a line that matches ${match}:\n${this.#stderr}`);
  }

  /** The line with `ready: true`. */
  ready(timeoutMs?: number): Promise<WorkerLine> {
    return this.line((line) => line.ready === true, timeoutMs);
  }

  /** Writes one line of JSON to the worker's stdin. */
  send(value: unknown): void {
    this.#child.stdin?.write(`${JSON.stringify(value)}\n`);
  }

  /** Sends a signal (default SIGKILL) and waits for the end. A frozen worker dies of SIGKILL only. */
  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<WorkerExit> {
    this.#child.kill(signal);
    return await within(this.exited, `worker ${this.#child.pid} exits after ${signal}`);
  }

  /** SIGSTOP; returns when it has stopped. */
  freeze(): Promise<void> {
    return freezeProcess(this.pid);
  }

  /** SIGCONT. */
  thaw(): void {
    thawProcess(this.pid);
  }

  /** SIGKILL for it and its children, if it still runs. */
  async stop(): Promise<void> {
    if (this.#child.pid) await killTree(identify(this.#child.pid));
    await this.exited.catch(() => {});
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

function parseLine(text: string): WorkerLine {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value as WorkerLine;
  } catch {
    // Not ours; shown as text.
  }
  return { text };
}

/** In MiB. Most of these processes load their modules and end: with less, a tenth of their time is spent on moving what they load. */
const largeYoungSpace = "--min-semi-space-size=16";

/** Starts a TypeScript or JavaScript file as a process of its own. It is killed with the test file at the latest. */
export function spawnWorker(script: string | URL, options: WorkerOptions = {}): WorkerProcess {
  const path = script instanceof URL ? fileURLToPath(script) : script;
  const { args = [], env = {}, cwd, execArgv = [] } = options;
  const [file, ...before] = options.command ?? [
    process.execPath,
    "--conditions=latchkey-source",
    largeYoungSpace,
  ];
  const child = spawn(file, [...before, ...execArgv, path, ...args], {
    env: { ...process.env, ...env },
    stdio: ["pipe", "pipe", "pipe"],
    ...(cwd !== undefined && { cwd }),
  });
  const worker = new WorkerProcess(child);
  if (!child.pid) return worker;
  const forgetProcess = watchProcess(child.pid);
  const forgetRelease = onRelease(() => worker.stop());
  child.once("exit", () => {
    forgetProcess();
    forgetRelease();
  });
  return worker;
}
