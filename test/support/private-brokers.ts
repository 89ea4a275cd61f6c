/** RabbitMQ and NATS of our own: each a process with its files, which can be killed, frozen and started again. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, closeSync, mkdirSync, openSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { connect as connectNats } from "@nats-io/transport-node";
import { Connection } from "rabbitmq-client";
import { isCommitted } from "./mnesia-log.ts";
import { notRun } from "./not-run.ts";
import { freePort } from "./postgres-cluster.ts";
import { endTree, freezeProcess, identify, killTree, thawProcess } from "./process-tree.ts";
import { onRelease } from "./resources.ts";
import { scratchDirectory, serverUser } from "./scratch.ts";
import { findProgram, type ProgramRecipe } from "./servers.ts";
import { until, within } from "./until.ts";
import { watchDirectory, watchProcess } from "./watchdog.ts";

interface Place {
  readonly folder: string;
  readonly port: number;
}

interface BrokerRecipe {
  readonly name: string;
  /** Environment variable with the URL of one to use as it is. */
  readonly variable: string;
  readonly program: ProgramRecipe;
  prepare(place: Place): Promise<{ readonly args: string[]; readonly env: Record<string, string> }>;
  url(place: Place): string;
  /** Rejects or answers false until it takes clients. */
  answers(url: string): Promise<boolean>;
  /** Whether what was declared under this name is in its files, for good. */
  wrote(place: Place, name: string): boolean;
}

export interface Broker {
  /** The same after every restart. */
  readonly url: string;
  /** Null where the broker is somebody else's, who may not be restarted. */
  readonly own: PrivateBroker | null;
}

const startTimeoutMs = 90_000;
const exitTimeoutMs = 20_000;

export class PrivateBroker {
  readonly url: string;
  readonly #recipe: BrokerRecipe;
  readonly #program: string;
  readonly #place: Place;
  readonly #endings: readonly (() => void)[];
  #child: ChildProcess | undefined;

  constructor(recipe: BrokerRecipe, program: string, place: Place) {
    this.#recipe = recipe;
    this.#program = program;
    this.#place = place;
    this.url = recipe.url(place);
    this.#endings = [watchDirectory(place.folder), onRelease(() => this.stop())];
  }

  /** Where it keeps its files. */
  get folder(): string {
    return this.#place.folder;
  }

  log(): string {
    return readFileSync(join(this.folder, "log"), "utf8");
  }

  /** Starts it on its files and waits until it takes clients. */
  async start(): Promise<void> {
    const child = await this.#spawn();
    const { name, answers } = this.#recipe;
    const options = { what: `${name} takes clients`, timeoutMs: startTimeoutMs };
    const failure = await until(() => child.exitCode !== null || answers(this.url), options).then(
      () => (child.exitCode === null ? null : "it exited"),
      String,
    );
    if (failure === null) return;
    const log = this.log();
    await this.stop();
    throw new Error(`${name} did not start: ${failure}\n${log}`);
  }

  /** SIGKILL; returns when it is gone. */
  async kill9(): Promise<void> {
    await this.#ending((pid) => killTree(identify(pid)));
  }

  /** SIGSTOP; the function that is returned lets it go on. */
  async freeze(): Promise<() => void> {
    const pid = this.#child?.pid;
    if (!pid) throw new Error("the broker is not running");
    await freezeProcess(pid);
    return () => thawProcess(pid);
  }

  /**
   * Resolves when what was declared under this name outlives a kill. RabbitMQ says that it is done before that; one that is
   * killed too soon has forgotten a durable queue, with all confirmed messages in it.
   */
  async wrote(name: string): Promise<void> {
    const what = `${this.#recipe.name} has written ${name} down`;
    await until(() => this.#recipe.wrote(this.#place, name), { what, timeoutMs: 60_000, intervalMs: 50 });
  }

  async restart(): Promise<void> {
    await this.kill9();
    await this.start();
  }

  /** Ends it for good and removes its files. */
  async stop(): Promise<void> {
    await this.#ending((pid) => endTree(identify(pid), "SIGTERM"));
    await rm(this.#place.folder, { recursive: true, force: true, maxRetries: 5 });
    for (const end of this.#endings) end();
  }

  async #spawn(): Promise<ChildProcess> {
    const { folder } = this.#place;
    const { args, env } = await this.#recipe.prepare(this.#place);
    const log = openSync(join(folder, "log"), "a");
    const user = serverUser();
    const child = spawn(this.#program, args, {
      ...(user && { uid: user.uid, gid: user.gid }),
      cwd: folder,
      env: { PATH: process.env.PATH, HOME: folder, LC_ALL: "C.UTF-8", ...env },
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

  async #ending(end: (pid: number) => Promise<void>): Promise<void> {
    const child = this.#child;
    if (!child?.pid) return;
    child.ref();
    const exited = once(child, "exit");
    await end(child.pid);
    await within(exited, `${this.#recipe.name} exits`, exitTimeoutMs);
  }
}

/** From the environment, else from a program of this machine; undefined after a "not run" report. */
async function startBroker(recipe: BrokerRecipe): Promise<Broker | undefined> {
  const given = process.env[recipe.variable];
  if (given) return { url: given, own: null };
  const program = findProgram(recipe.program);
  if (program === undefined) {
    notRun(`tests on ${recipe.name}`, `no ${recipe.variable}, and no ${recipe.program.names.at(-1)} here`);
    return undefined;
  }
  const own = new PrivateBroker(recipe, program, { folder: scratchDirectory(), port: await freePort() });
  await own.start();
  return { url: own.url, own };
}

/** Seen from a folder such as /usr/sbin. Debian's wrapper there changes the user and the environment; this one does not. */
const rabbitmqScript = "../lib/rabbitmq/bin/rabbitmq-server";

/** Mnesia's logs, from which it fills its tables on disk. */
const [logs, tables] = [/\.LOG$/u, /\.(?:DCD|DCL)$/u];

export function startRabbitmq(): Promise<Broker | undefined> {
  return startBroker({
    name: "RabbitMQ",
    variable: "LATCHKEY_RABBITMQ_URL",
    program: { names: [rabbitmqScript, "rabbitmq-server"], apt: "rabbitmq-server" },
    async prepare({ folder, port }) {
      const inside = (name: string) => join(folder, name);
      writeFileSync(inside("plugins"), "[].\n");
      writeFileSync(
        inside("rabbitmq.conf"),
        "log.console = true\nlog.file = false\nlog.console.level = warning\n",
      );
      mkdirSync(inside("data"), { recursive: true });
      const user = serverUser();
      if (user)
        for (const name of ["plugins", "rabbitmq.conf", "data"]) chownSync(inside(name), user.uid, user.gid);
      const env = {
        RABBITMQ_NODENAME: `${basename(folder).replaceAll(/[^a-zA-Z0-9]/g, "")}@localhost`,
        RABBITMQ_MNESIA_BASE: inside("data"),
        RABBITMQ_LOG_BASE: inside("data"),
        RABBITMQ_NODE_IP_ADDRESS: "127.0.0.1",
        RABBITMQ_NODE_PORT: String(port),
        RABBITMQ_DIST_PORT: String(await freePort()),
        RABBITMQ_ENABLED_PLUGINS_FILE: inside("plugins"),
        RABBITMQ_CONFIG_FILE: inside("rabbitmq.conf"),
        RABBITMQ_CONF_ENV_FILE: "/dev/null",
        RABBITMQ_PID_FILE: inside("data/pid"),
      };
      return { args: [], env };
    },
    url: ({ port }) => `amqp://guest:guest@127.0.0.1:${port}`,
    async answers(url) {
      const connection = new Connection({ url, acquireTimeout: 2_000, retryLow: 60_000 });
      connection.on("error", () => {});
      try {
        await connection.onConnect(1_000);
        return true;
      } finally {
        connection.unsafeDestroy();
      }
    },
    wrote: ({ folder }, name) =>
      readdirSync(join(folder, "data"), { recursive: true, encoding: "utf8" })
        .filter((file) => logs.test(file) || tables.test(file))
        .some((file) => {
          const text = readFileSync(join(folder, "data", file), "latin1");
          return logs.test(file) ? isCommitted(text, name) : text.includes(name);
        }),
  });
}

export function startNats(): Promise<Broker | undefined> {
  return startBroker({
    name: "NATS",
    variable: "LATCHKEY_NATS_URL",
    program: { names: ["nats-server"], apt: "nats-server" },
    prepare: async ({ folder, port }) => ({
      args: ["-a", "127.0.0.1", "-p", String(port), "-js", "-sd", join(folder, "streams")],
      env: {},
    }),
    url: ({ port }) => `nats://127.0.0.1:${port}`,
    async answers(url) {
      const connection = await connectNats({ servers: url, reconnect: false, timeout: 1_000 });
      await connection.close();
      return true;
    },
    wrote: () => true,
  });
}
