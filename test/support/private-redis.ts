import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { createClient } from "redis";
import { notRun } from "./not-run.ts";
import { freePort } from "./postgres-cluster.ts";
import { endTree, freezeProcess, identify, killTree, thawProcess } from "./process-tree.ts";
import { onRelease } from "./resources.ts";
import { scratchDirectory, serverUser } from "./scratch.ts";
import { findProgram } from "./servers.ts";
import { until, within } from "./until.ts";
import { watchDirectory, watchProcess } from "./watchdog.ts";

/** Settings of redis.conf by name. */
export type RedisConf = Readonly<Record<string, string | number>>;

export interface PrivateRedisOptions {
  /** Settings on top of those for tests: in memory alone. */
  readonly conf?: RedisConf;
  /** Before the settings: a file that the server rewrites, a mode. */
  readonly arguments?: readonly string[];
}

const variable = "LATCHKEY_REDIS_URL";
const startTimeoutMs = 30_000;
const exitTimeoutMs = 20_000;
const portAttempts = 5;
const testConf: RedisConf = { bind: "127.0.0.1", save: "", appendonly: "no", "repl-diskless-sync-delay": 0 };

/** Path of the server, installing it under the rules of `findProgram`; undefined after a "not run" report. */
export function redisProgram(): string | undefined {
  const found = findProgram({ names: ["redis-server", "valkey-server"], apt: "redis-server" });
  if (!found) notRun("tests on Redis", "no redis-server on this machine");
  return found;
}

/** A Redis of our own: one process and its files. */
export class PrivateRedis {
  readonly #program: string;
  readonly #folder = scratchDirectory();
  readonly #endings: readonly (() => void)[];
  readonly #arguments: readonly string[];
  #conf: RedisConf;
  #port = 0;
  #child: ChildProcess | undefined;

  /** Use `startRedis`. */
  constructor(program: string, { conf = {}, arguments: args = [] }: PrivateRedisOptions = {}) {
    this.#program = program;
    this.#arguments = args;
    this.#conf = conf;
    this.#endings = [watchDirectory(this.#folder), onRelease(() => this.stop())];
  }

  /** The same after every restart. */
  get port(): number {
    return this.#port;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.#port}`;
  }

  get pid(): number {
    if (!this.#child?.pid) throw new Error("the server is not running");
    return this.#child.pid;
  }

  log(): string {
    return readFileSync(join(this.#folder, "log"), "utf8");
  }

  /** Runs one command on a connection of its own. */
  async admin(...command: readonly string[]): Promise<unknown> {
    const client = createClient({ url: this.url, socket: { reconnectStrategy: false } });
    client.on("error", () => {});
    await client.connect();
    try {
      return await client.sendCommand([...command]);
    } finally {
      client.destroy();
    }
  }

  /** Starts the server on its files and waits until it takes commands. */
  async start(conf: RedisConf = {}): Promise<void> {
    if (this.#child) throw new Error("the server is already running");
    this.#conf = { ...this.#conf, ...conf };
    const fixed = this.#port !== 0;
    for (let attempt = 1; ; attempt += 1) {
      if (!fixed) this.#port = await freePort();
      const child = this.#spawn();
      const answers = () => child.exitCode !== null || this.admin("PING");
      await until(answers, { what: "Redis takes commands", timeoutMs: startTimeoutMs });
      if (child.exitCode === null) return;
      if (fixed || attempt === portAttempts) throw new Error(`Redis did not start:\n${this.log()}`);
    }
  }

  #spawn(): ChildProcess {
    const all = { ...testConf, ...this.#conf, port: this.#port, dir: this.#folder };
    const settings = Object.entries(all).flatMap(([name, value]) => [`--${name}`, String(value)]);
    const log = openSync(join(this.#folder, "log"), "a");
    const user = serverUser();
    const child = spawn(this.#program, [...this.#arguments, ...settings], {
      ...(user && { uid: user.uid, gid: user.gid }),
      cwd: this.#folder,
      env: { PATH: process.env.PATH, LC_ALL: "C" },
      stdio: ["ignore", log, log],
      detached: true,
    });
    closeSync(log);
    child.on("error", () => {});
    if (!child.pid) throw new Error(`could not start ${this.#program}`);
    const forget = watchProcess(child.pid);
    child.unref();
    child.once("exit", () => {
      forget();
      this.#child = undefined;
    });
    this.#child = child;
    return child;
  }

  /** SIGSTOP; returns a function that continues it. */
  async freeze(): Promise<() => void> {
    const { pid } = this;
    await freezeProcess(pid);
    return () => thawProcess(pid);
  }

  /** SIGKILL; returns when it is gone. */
  async kill9(): Promise<void> {
    await this.#ending((pid) => killTree(identify(pid)));
  }

  /** Ends the server for good and removes its files. */
  async stop(): Promise<void> {
    await this.#ending((pid) => endTree(identify(pid), "SIGTERM"));
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 5 });
    for (const end of this.#endings) end();
  }

  async #ending(end: (pid: number) => Promise<void>): Promise<void> {
    const child = this.#child;
    if (!child?.pid) return;
    child.ref();
    const exited = once(child, "exit");
    await end(child.pid);
    await within(exited, "Redis exits", exitTimeoutMs);
  }
}

/** Starts a private Redis; undefined after a "not run" report. It ends with the test file. */
export async function startRedis(options: PrivateRedisOptions = {}): Promise<PrivateRedis | undefined> {
  const program = redisProgram();
  if (program === undefined) return undefined;
  const server = new PrivateRedis(program, options);
  try {
    await server.start();
    return server;
  } catch (error) {
    await server.stop();
    throw error;
  }
}

/** A Redis for tests that leave its settings and its process alone: the one that LATCHKEY_REDIS_URL names, or a private one. */
export async function anyRedis(): Promise<string | undefined> {
  return process.env[variable] ?? (await startRedis())?.url;
}
