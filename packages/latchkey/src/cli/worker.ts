/** `latchkey worker`: a process that does what is left to do after requests have been answered. */
import { constants } from "node:os";
import { resolve } from "node:path";
import type { LatchkeyConfig } from "../config.ts";
import type { Worker } from "../maintenance/worker.ts";
import { type Command, type CommandContext, type ExitCode, UsageError } from "./command.ts";
import { type HealthServer, serveHealth } from "./health-server.ts";
import { loadConfig } from "./load-config.ts";
import { parse, wholeNumber } from "./options.ts";
import { healthView } from "./worker-health.ts";

const configDefault = "latchkey.config.ts";
/** Platforms usually give 30 seconds. */
const stopLimitDefaultMs = 25_000;
const closeLimitMs = 2_000;
/** A Ctrl-C under `npm` comes twice: from the terminal, and from npm, which passes it on. */
const sameSignalMs = 100;

const help = `Usage: latchkey worker [options]

Runs deferred operations, delivers effects, resumes, reconciles and cleans, until it is stopped. Any number of workers may
run on the same tables. It prints a line of JSON when it is ready, when it begins to stop, and when it has stopped.

The config is a module whose default export is { latchkey, worker, close }: what \`createLatchkey\` gave, options of
\`startWorker\`, and what is to be closed at the end. The last two may be left out.

  --config <file>         the config; default: ${configDefault}
  --health-port <n>       answer GET on this port with 200 or 503 and JSON; 0: any free one, which the first line names
  --health-host <address> the address to listen on; default: all
  --stop-limit-ms <n>     how long work under way may take after SIGTERM or SIGINT; default: what the config says, else
                          ${stopLimitDefaultMs}

SIGTERM or SIGINT: nothing new is begun, and what is under way is waited for. A second one ends the process at once.

Exit codes: 0 stopped with nothing under way, 1 failed, or work was under way when the limit came, 2 called wrongly or the
config is not one, 130 or 143 ended by a second SIGINT or SIGTERM.`;

export const worker: Command = {
  summary: "run deferred work, deliver effects, and keep the tables in order",
  help,
  async run(context) {
    const options = readOptions(context.args);
    const stopping = stopSignals();
    // Timers of the services and idle connections do not keep a process alive.
    const held = setInterval(() => {}, 2 ** 30);
    try {
      const config = await loadConfig(resolve(context.cwd, options.config));
      return await runUntilStopped(context, config, options, stopping.first);
    } finally {
      clearInterval(held);
      stopping.forget();
    }
  },
};

interface Options {
  readonly config: string;
  readonly health: { readonly port: number; readonly host: string | undefined } | null;
  /** Null: as the config says. */
  readonly stopLimitMs: number | null;
}

function readOptions(args: readonly string[]): Options {
  const { values } = parse({
    args: [...args],
    options: {
      config: { type: "string" },
      "health-port": { type: "string" },
      "health-host": { type: "string" },
      "stop-limit-ms": { type: "string" },
    },
  });
  const { "health-port": port, "health-host": host, "stop-limit-ms": limit } = values;
  if (host !== undefined && port === undefined)
    throw new UsageError("--health-host goes with --health-port.");
  return {
    config: values.config ?? configDefault,
    health: port === undefined ? null : { port: wholeNumber("health-port", port, 0, 65_535), host },
    stopLimitMs: limit === undefined ? null : wholeNumber("stop-limit-ms", limit, 1, 86_400_000),
  };
}

/** The first signal to stop; a second one ends the process at once. */
function stopSignals() {
  const first = Promise.withResolvers<NodeJS.Signals>();
  let heardAtMs: number | null = null;
  const hear = (signal: NodeJS.Signals) => {
    if (heardAtMs !== null && performance.now() - heardAtMs > sameSignalMs) {
      process.exit(128 + constants.signals[signal]);
    }
    heardAtMs ??= performance.now();
    first.resolve(signal);
  };
  process.on("SIGTERM", hear).on("SIGINT", hear);
  return { first: first.promise, forget: () => process.off("SIGTERM", hear).off("SIGINT", hear) };
}

async function runUntilStopped(
  context: CommandContext,
  config: LatchkeyConfig<unknown>,
  options: Options,
  stopSignal: Promise<NodeJS.Signals>,
): Promise<ExitCode> {
  const say = (line: Readonly<Record<string, unknown>>) => context.print(JSON.stringify(line));
  const { latchkey } = config;
  const stopLimitMs = options.stopLimitMs ?? config.worker?.stopLimitMs ?? stopLimitDefaultMs;
  let started: Worker | null = null;
  let health: HealthServer | null = null;
  let graceful = true;
  try {
    health = options.health === null ? null : await serveHealth(options.health, () => healthView(started));
    const { store } = latchkey.runtime;
    await store.verify();
    started = latchkey.startWorker({ ...config.worker, stopLimitMs });
    say({ ready: true, pid: process.pid, store: store.name, healthPort: health?.port ?? null });
    say({ stopping: true, signal: await stopSignal });
    graceful = await started.stop();
  } finally {
    await closeInTime(config);
    await health?.close();
  }
  say({ stopped: true, graceful });
  if (!graceful)
    context.complain(`Work was still under way after ${stopLimitMs} ms. Its leases tell others.`);
  return graceful ? 0 : 1;
}

/** What is under way still may hold what is to be closed. */
async function closeInTime(config: LatchkeyConfig<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((over) => {
    timer = setTimeout(over, closeLimitMs);
  });
  try {
    await Promise.race([config.close?.(), late]);
  } finally {
    clearTimeout(timer);
  }
}
