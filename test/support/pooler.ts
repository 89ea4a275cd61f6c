/** pgbouncer in transaction mode, or pgpool-II, in front of one of our servers. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { debianTool } from "./debian-tools.ts";
import { freePort } from "./postgres-cluster.ts";
import { onRelease } from "./resources.ts";
import { scratchDirectory, serverUser } from "./scratch.ts";
import { until } from "./until.ts";
import { watchDirectory, watchProcess } from "./watchdog.ts";

export type PoolerKind = "pgbouncer" | "pgpool";

export interface PoolerOptions {
  /** Database behind it; what it answers for has the same user and database. */
  readonly to: string;
  /** Users who may log in, in addition to `postgres`; pgpool accepts all. */
  readonly users?: readonly string[];
  /** Lines of its own configuration. */
  readonly settings?: Readonly<Record<string, string | number>>;
  /** pgbouncer only: a file with its databases, which others may rewrite before they send SIGHUP. Default: `to`. */
  readonly databasesFile?: string;
}

type Files = Readonly<Record<string, string>>;
interface Place {
  readonly folder: string;
  readonly port: number;
  readonly otherPort: number;
  readonly server: URL;
}

const lines = (settings: Readonly<Record<string, string | number>>, quote = "") =>
  Object.entries(settings)
    .map(([name, value]) => `${name} = ${typeof value === "string" ? `${quote}${value}${quote}` : value}\n`)
    .join("");

const recipes: Readonly<
  Record<
    PoolerKind,
    {
      readonly files: (place: Place, options: PoolerOptions) => Files;
      readonly args: (folder: string) => readonly string[];
    }
  >
> = {
  pgbouncer: {
    files: ({ folder, port, server }, { users = [], settings = {}, databasesFile }) => ({
      "pgbouncer.ini": `[databases]\n${databasesFile === undefined ? `* = host=127.0.0.1 port=${server.port}` : `%include ${databasesFile}`}\n[pgbouncer]\n${lines(
        {
          listen_addr: "127.0.0.1",
          listen_port: port,
          unix_socket_dir: "",
          auth_type: "trust",
          auth_file: join(folder, "users.txt"),
          pool_mode: "transaction",
          max_client_conn: 500,
          server_login_retry: 1,
          ...settings,
        },
      )}`,
      "users.txt": ["postgres", ...users].map((user) => `"${user}" ""\n`).join(""),
    }),
    args: (folder) => [join(folder, "pgbouncer.ini")],
  },
  pgpool: {
    files: ({ folder, port, otherPort, server }, { settings = {} }) => ({
      "pgpool.conf": lines(
        {
          listen_addresses: "127.0.0.1",
          port,
          pcp_port: otherPort,
          unix_socket_directories: folder,
          socket_dir: folder,
          pcp_socket_dir: folder,
          pid_file_name: join(folder, "pid"),
          logdir: folder,
          backend_hostname0: "127.0.0.1",
          backend_port0: Number(server.port),
          backend_flag0: "DISALLOW_TO_FAILOVER",
          // Its default. In raw mode 4.3.5 leaves a transaction open after a statement that writes by itself.
          backend_clustering_mode: "streaming_replication",
          sr_check_period: 0,
          num_init_children: 24,
          max_pool: 1,
          ...settings,
        },
        "'",
      ),
      "pcp.conf": "",
    }),
    args: (folder) => ["-n", "-f", join(folder, "pgpool.conf"), "-F", join(folder, "pcp.conf")],
  },
};

export class Pooler {
  readonly url: string;
  readonly #program: string;
  readonly #args: readonly string[];
  readonly #folder: string;
  readonly #endings: readonly (() => void)[];
  #child: ChildProcess | null = null;

  private constructor(program: string, kind: PoolerKind, folder: string, url: string) {
    this.#program = program;
    this.#args = recipes[kind].args(folder);
    this.#folder = folder;
    this.url = url;
    this.#endings = [watchDirectory(folder), onRelease(() => this.stop())];
  }

  /** Null: it is not installed, and cannot be downloaded. */
  static async open(kind: PoolerKind, options: PoolerOptions): Promise<Pooler | null> {
    const program = await debianTool(kind);
    if (program === null) return null;
    const folder = scratchDirectory();
    const [port, otherPort] = [await freePort(), await freePort()];
    const url = new URL(options.to);
    const files = recipes[kind].files({ folder, port, otherPort, server: url }, options);
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
    const own = new URL(url);
    own.hostname = "127.0.0.1";
    own.port = String(port);
    const pooler = new Pooler(program, kind, folder, own.href);
    await pooler.start();
    return pooler;
  }

  log(): string {
    return readFileSync(join(this.#folder, "log"), "utf8");
  }

  async start(): Promise<void> {
    const user = serverUser();
    const log = openSync(join(this.#folder, "log"), "a");
    const child = spawn(this.#program, [...this.#args], {
      ...(user && { uid: user.uid, gid: user.gid }),
      cwd: "/",
      env: { PATH: process.env.PATH },
      stdio: ["ignore", log, log],
    });
    closeSync(log);
    child.on("error", () => {});
    if (child.pid === undefined) throw new Error(`could not start ${this.#program}`);
    child.unref();
    const forget = watchProcess(child.pid);
    child.once("exit", forget);
    this.#child = child;
    const answers = async () => child.exitCode !== null || (await this.#answers());
    await until(answers, { what: `${this.#program} answers`, timeoutMs: 30_000 });
    if (child.exitCode !== null) throw new Error(`${this.#program} ended:\n${this.log()}`);
  }

  async #answers(): Promise<boolean> {
    const client = new pg.Client({ connectionString: this.url });
    client.on("error", () => {});
    try {
      await client.connect();
      await client.query("select 1");
      return true;
    } catch {
      return false;
    } finally {
      await client.end();
    }
  }

  /** Closes the connections on both sides, whatever they are doing. */
  async end(): Promise<void> {
    const child = this.#child;
    this.#child = null;
    if (child === null || child.exitCode !== null) return;
    child.ref();
    const exited = once(child, "exit");
    child.kill("SIGINT");
    await exited;
  }

  async stop(): Promise<void> {
    await this.end();
    rmSync(this.#folder, { recursive: true, force: true });
    for (const end of this.#endings) end();
  }
}
