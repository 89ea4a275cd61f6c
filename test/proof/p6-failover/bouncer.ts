/** pgbouncer in transaction mode, before a server of ours. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { freePort } from "../../support/postgres-cluster.ts";
import type { PrivatePostgres } from "../../support/private-postgres.ts";
import { onRelease } from "../../support/resources.ts";
import { scratchDirectory, serverUser } from "../../support/scratch.ts";
import { until } from "../../support/until.ts";
import { watchDirectory, watchProcess } from "../../support/watchdog.ts";

export interface BouncerOptions {
  readonly program: string;
  readonly server: PrivatePostgres;
  /** Connections to the server, by database; `*` for the others. */
  readonly poolSizes: Readonly<Record<string, number>>;
}

export class Bouncer {
  readonly #program: string;
  readonly #folder: string;
  readonly #endings: readonly (() => void)[];
  readonly #port: number;
  #child: ChildProcess | null = null;

  private constructor(program: string, folder: string, port: number) {
    this.#program = program;
    this.#folder = folder;
    this.#port = port;
    this.#endings = [watchDirectory(folder), onRelease(() => this.stop())];
  }

  static async open({ program, server, poolSizes }: BouncerOptions): Promise<Bouncer> {
    const folder = scratchDirectory();
    const port = await freePort();
    const lines = [
      "[databases]",
      ...Object.entries(poolSizes).map(
        ([name, size]) => `${name} = host=127.0.0.1 port=${server.port} user=postgres pool_size=${size}`,
      ),
      "[pgbouncer]",
      "listen_addr = 127.0.0.1",
      `listen_port = ${port}`,
      "unix_socket_dir =",
      "auth_type = any",
      "pool_mode = transaction",
      "max_client_conn = 500",
      "server_login_retry = 1",
    ];
    writeFileSync(join(folder, "pgbouncer.ini"), `${lines.join("\n")}\n`);
    const bouncer = new Bouncer(program, folder, port);
    await bouncer.start();
    return bouncer;
  }

  get url(): string {
    return `postgres://postgres@127.0.0.1:${this.#port}/postgres`;
  }

  log(): string {
    return readFileSync(join(this.#folder, "log"), "utf8");
  }

  async start(): Promise<void> {
    const user = serverUser();
    const log = openSync(join(this.#folder, "log"), "a");
    const child = spawn(this.#program, [join(this.#folder, "pgbouncer.ini")], {
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
    const answers = async () => child.exitCode !== null || (await this.#ask());
    await until(answers, { what: "pgbouncer answers", timeoutMs: 30_000 });
    if (child.exitCode !== null) throw new Error(`pgbouncer ended:\n${this.log()}`);
  }

  async #ask(): Promise<boolean> {
    const client = new pg.Client({ connectionString: this.url });
    client.on("error", () => {});
    try {
      await client.connect();
      await client.query("select 1");
      return true;
    } finally {
      await client.end();
    }
  }

  /** All connections on both sides are gone. */
  async kill9(): Promise<void> {
    const child = this.#child;
    this.#child = null;
    if (child === null || child.exitCode !== null) return;
    child.ref();
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
  }

  async stop(): Promise<void> {
    await this.kill9();
    rmSync(this.#folder, { recursive: true, force: true });
    for (const end of this.#endings) end();
  }
}
