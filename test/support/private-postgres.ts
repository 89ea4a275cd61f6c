import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chownSync,
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import pg from "pg";
import { installation, type PostgresInstallation, type PostgresVersion } from "./postgres-binaries.ts";
import { createDataDirectory, freePort, removeSharedMemory } from "./postgres-cluster.ts";
import { endTree, identify, killTree } from "./process-tree.ts";
import { onRelease } from "./resources.ts";
import { scratchDirectory, serverUser } from "./scratch.ts";
import { until, within } from "./until.ts";
import { watchDirectory, watchProcess } from "./watchdog.ts";

/** Server settings by name; written to postgresql.conf, so ALTER SYSTEM goes before them. */
export type PostgresConf = Readonly<Record<string, string | number | boolean>>;

export interface PrivatePostgresOptions {
  /** Major version. Default: the newest that is installed. */
  version?: PostgresVersion;
  /** Settings on top of the fast ones for tests. */
  conf?: PostgresConf;
  /** Where the data lies, e.g. a small tmpfs. An existing cluster there is used as it is. Default: a new place, removed by `stop`. */
  dataDir?: string;
  /** Variables for the server process, e.g. LD_PRELOAD. It inherits only PATH. */
  env?: Readonly<Record<string, string>>;
}

export type ShutdownMode = "smart" | "fast" | "immediate";

const SHUTDOWN_SIGNALS = { smart: "SIGTERM", fast: "SIGINT", immediate: "SIGQUIT" } as const;
const START_TIMEOUT_MS = 60_000;
const SHUTDOWN_TIMEOUT_MS = 20_000;
const PORT_ATTEMPTS = 5;

/**
 * Fast and small. `fsync = off` loses nothing when processes are killed, only when the machine is.
 * `dynamic_shared_memory_type = mmap` keeps shared memory files inside the data directory, where a kill -9 cannot
 * leave them behind.
 */
const TEST_CONF: PostgresConf = {
  listen_addresses: "127.0.0.1",
  fsync: false,
  full_page_writes: false,
  synchronous_commit: true,
  shared_buffers: "16MB",
  dynamic_shared_memory_type: "mmap",
  max_connections: 100,
  max_wal_size: "64MB",
  min_wal_size: "4MB",
  deadlock_timeout: "100ms",
  wal_retrieve_retry_interval: "200ms",
  jit: false,
  timezone: "UTC",
  log_timezone: "UTC",
  log_checkpoints: false,
};

/** A server of our own: one postmaster, its files and its socket. */
export class PrivatePostgres {
  readonly version: PostgresVersion;
  readonly installation: PostgresInstallation;
  readonly socketDir: string;
  readonly dataDir: string;
  #port = 0;
  #conf: PostgresConf;
  readonly #env: Readonly<Record<string, string>>;
  readonly #folder: string;
  readonly #endings: Array<() => void>;
  #child: ChildProcess | undefined;
  #killed = false;

  /** Use `startPostgres`. */
  constructor(options: PrivatePostgresOptions) {
    this.installation = installation(options.version);
    this.version = this.installation.version;
    this.#conf = options.conf ?? {};
    this.#env = options.env ?? {};
    this.#folder = scratchDirectory();
    this.socketDir = this.#folder;
    this.dataDir = options.dataDir ?? join(this.#folder, "data");
    this.#endings = [watchDirectory(this.#folder), onRelease(() => this.stop())];
  }

  get port(): number {
    return this.#port;
  }

  /** TCP on 127.0.0.1, superuser, database `postgres`. The same after every restart. */
  get url(): string {
    return `postgres://postgres@127.0.0.1:${this.port}/postgres`;
  }

  /** Options for pg's Client and Pool: the same as `url`. */
  get connection(): { host: string; port: number; user: string; database: string } {
    return { host: "127.0.0.1", port: this.port, user: "postgres", database: "postgres" };
  }

  /** The settings given by options and restarts, without the defaults for tests. */
  get conf(): PostgresConf {
    return this.#conf;
  }

  get running(): boolean {
    return this.#child !== undefined;
  }

  /** Process id of the postmaster. Throws when the server is not running. */
  get pid(): number {
    if (!this.#child?.pid) throw new Error("the server is not running");
    return this.#child.pid;
  }

  /** What the server has written to its log since it was created. */
  log(): string {
    return readFileSync(this.#logFile, "utf8");
  }

  get #logFile(): string {
    return join(this.#folder, "log");
  }

  /** Runs one statement as superuser over the Unix socket, on a connection of its own. */
  async admin<Row extends object = Record<string, unknown>>(sql: string, values?: unknown[]): Promise<Row[]> {
    const client = new pg.Client({ ...this.connection, host: this.socketDir });
    client.on("error", () => {});
    await client.connect();
    try {
      return (await client.query<Row>(sql, values)).rows;
    } finally {
      await client.end();
    }
  }

  /** Starts the server on its files, creating them if there are none, and waits until it takes connections. */
  async start(conf: PostgresConf = {}): Promise<void> {
    if (this.#child) throw new Error("the server is already running");
    this.#conf = { ...this.#conf, ...conf };
    if (!existsSync(this.dataDir) || readdirSync(this.dataDir).length === 0) {
      await createDataDirectory(this.installation, this.dataDir);
    }
    for (let attempt = 1; ; attempt += 1) {
      const fixed = this.#port !== 0;
      if (!fixed) this.#port = await freePort();
      const failure = await this.#launch();
      if (!failure) return;
      if (fixed || attempt === PORT_ATTEMPTS || !failure.includes("could not bind")) {
        throw new Error(`PostgreSQL ${this.installation.fullVersion} did not start:\n${failure}`);
      }
      this.#port = 0;
    }
  }

  async #launch(): Promise<string | undefined> {
    const logged = existsSync(this.#logFile) ? this.log().length : 0;
    if (this.#killed) await this.#removeLockFiles();
    this.#writeConf();
    this.#spawn();
    const decided = async () => !this.running || (await this.admin("select 1"));
    const options = { what: "the server takes connections", timeoutMs: START_TIMEOUT_MS };
    const late = await until(decided, options).then(() => undefined, String);
    if (this.running && !late) return undefined;
    await this.kill9();
    return `${late ?? "it exited"}\n${this.log().slice(logged)}`;
  }

  /** After a kill -9 another process may have got the dead postmaster's id; a restart would then be refused. */
  async #removeLockFiles(): Promise<void> {
    await rm(join(this.dataDir, "postmaster.pid"), { force: true });
    await rm(join(this.socketDir, `.s.PGSQL.${this.port}.lock`), { force: true });
    this.#killed = false;
  }

  #spawn(): ChildProcess {
    const user = serverUser();
    const log = openSync(this.#logFile, "a");
    if (user) chownSync(this.#logFile, user.uid, user.gid);
    const child = spawn(join(this.installation.bin, "postgres"), ["-D", this.dataDir], {
      ...(user && { uid: user.uid, gid: user.gid }),
      cwd: "/",
      env: { PATH: process.env.PATH, LC_ALL: "C", ...this.#env },
      stdio: ["ignore", log, log],
      detached: true,
    });
    closeSync(log);
    child.on("error", () => {});
    if (!child.pid) throw new Error(`could not start ${child.spawnfile}`);
    const forget = watchProcess(child.pid, SHUTDOWN_SIGNALS.immediate);
    child.unref();
    child.once("exit", () => {
      forget();
      this.#child = undefined;
    });
    this.#child = child;
    return child;
  }

  #writeConf(): void {
    const all: PostgresConf = {
      ...TEST_CONF,
      ...(this.version >= 18 && { io_method: "sync" }),
      ...this.#conf,
      port: this.port,
      unix_socket_directories: this.socketDir,
    };
    const text = (value: string | number | boolean) =>
      typeof value === "boolean" ? (value ? "on" : "off") : `'${String(value).replaceAll("'", "''")}'`;
    const lines = Object.entries(all).map(([name, value]) => `${name} = ${text(value)}\n`);
    const file = join(this.dataDir, "postgresql.conf");
    const user = serverUser();
    writeFileSync(file, lines.join(""), { mode: 0o600 });
    if (user) chownSync(file, user.uid, user.gid);
  }

  /** ALTER SYSTEM for each setting, then a reload. Settings that need a restart wait for one. */
  async configure(conf: PostgresConf): Promise<void> {
    for (const [name, value] of Object.entries(conf)) {
      await this.admin(`alter system set ${name} = '${String(value).replaceAll("'", "''")}'`);
    }
    await this.admin("select pg_reload_conf()");
  }

  /**
   * SIGKILL for the postmaster and all its children, frozen ones included; returns when they are gone and the dead
   * postmaster is reaped, so that `restart` may follow at once. Committed rows stay.
   */
  async kill9(): Promise<void> {
    await this.#ending(async (pid) => killTree(identify(pid)));
    this.#killed = true;
  }

  /** Ends the server politely and keeps its files. Default `fast`: sessions get 57P01. */
  async shutdown(mode: ShutdownMode = "fast"): Promise<void> {
    await this.#ending(async (pid) => {
      process.kill(pid, SHUTDOWN_SIGNALS[mode]);
    });
  }

  async #ending(end: (pid: number) => Promise<void>): Promise<void> {
    const child = this.#child;
    if (!child?.pid) return;
    child.ref();
    const exited = once(child, "exit");
    await end(child.pid);
    await within(exited, "the postmaster exits", SHUTDOWN_TIMEOUT_MS);
  }

  /** Starts the server again on the same port, after a fast shutdown if it is running. */
  async restart(conf: PostgresConf = {}): Promise<void> {
    await this.shutdown();
    await this.start(conf);
  }

  /** Ends the server for good and removes its files. Frozen backends are no obstacle. */
  async stop(): Promise<void> {
    await this.#ending((pid) => endTree(identify(pid), SHUTDOWN_SIGNALS.immediate));
    removeSharedMemory(this.dataDir);
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 5 });
    for (const end of this.#endings) end();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

/** Starts a private server: under a second once the day's template is there. It ends with the test file. */
export async function startPostgres(options: PrivatePostgresOptions = {}): Promise<PrivatePostgres> {
  const server = new PrivatePostgres(options);
  try {
    await server.start();
    return server;
  } catch (error) {
    await server.stop();
    throw error;
  }
}
