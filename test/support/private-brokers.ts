/** RabbitMQ and NATS of our own. */
import { chownSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { connect as connectNats } from "@nats-io/transport-node";
import { Connection } from "rabbitmq-client";
import { isCommitted } from "./mnesia-log.ts";
import { notRun } from "./not-run.ts";
import { freePort } from "./postgres-cluster.ts";
import { PrivateServer, type PrivateServerRecipe, type ServerPlace } from "./private-server.ts";
import { scratchDirectory, serverUser } from "./scratch.ts";
import { findProgram, type ProgramRecipe } from "./servers.ts";
import { until } from "./until.ts";

export interface BrokerRecipe extends PrivateServerRecipe {
  /** Environment variable with the URL of one to use as it is. */
  readonly variable: string;
  readonly program: ProgramRecipe;
  /** Whether what was declared under this name is in its files, for good. */
  wrote(place: ServerPlace, name: string): boolean;
}

export interface Broker {
  /** The same after every restart. */
  readonly url: string;
  /** Null where the broker is somebody else's, who may not be restarted. */
  readonly own: PrivateBroker | null;
}

export class PrivateBroker extends PrivateServer<BrokerRecipe> {
  /**
   * Resolves when what was declared under this name outlives a kill. RabbitMQ says that it is done before that; one that is
   * killed too soon has forgotten a durable queue, with all confirmed messages in it.
   */
  async wrote(name: string): Promise<void> {
    const what = `${this.recipe.name} has written ${name} down`;
    await until(() => this.recipe.wrote(this.place, name), { what, timeoutMs: 60_000, intervalMs: 50 });
  }
}

/** From the environment, else from a program of this machine; undefined after a "not run" report. */
async function startBroker(recipe: BrokerRecipe): Promise<Broker | undefined> {
  const given = process.env[recipe.variable];
  if (given) return { url: given, own: null };
  const own = privateBroker(recipe, { folder: scratchDirectory(), port: await freePort() });
  await own?.start();
  return own && { url: own.url, own };
}

/** One that is not started yet; undefined after a "not run" report. */
export function privateBroker(recipe: BrokerRecipe, place: ServerPlace): PrivateBroker | undefined {
  const program = findProgram(recipe.program);
  if (program !== undefined) return new PrivateBroker(recipe, program, place);
  notRun(`tests on ${recipe.name}`, `no ${recipe.variable}, and no ${recipe.program.names.at(-1)} here`);
  return undefined;
}

/** Seen from a folder such as /usr/sbin. Debian's wrapper there changes the user and the environment; this one does not. */
const rabbitmqScript = "../lib/rabbitmq/bin/rabbitmq-server";

/** Mnesia's logs, from which it fills its tables on disk. */
const [logs, tables] = [/\.LOG$/u, /\.(?:DCD|DCL)$/u];

export const rabbitmqRecipe: BrokerRecipe = {
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
      // Its schedulers otherwise spin before they sleep.
      RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: "+sbwt none +sbwtdcpu none +sbwtdio none",
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
};

export const natsRecipe: BrokerRecipe = {
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
};

export function startRabbitmq(): Promise<Broker | undefined> {
  return startBroker(rabbitmqRecipe);
}

export function startNats(): Promise<Broker | undefined> {
  return startBroker(natsRecipe);
}
