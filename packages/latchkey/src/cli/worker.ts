/** `latchkey worker`: a process for the work that remains after requests have been answered. */
import { resolve } from "node:path";
import type { LatchkeyConfig } from "../config.ts";
import type { WorkReport } from "../workers/work.ts";
import type { Worker } from "../workers/worker.ts";
import { type Command, type CommandContext, type ExitCode, UsageError } from "./command.ts";
import { loadConfig } from "./load-config.ts";
import { parse, wholeNumber } from "./options.ts";
import { stopSignals } from "./stop-signals.ts";
import type { HealthServer } from "./worker-health.ts";

const configDefault = "latchkey.config.ts";
/** Platforms usually allow 30 seconds. */
const stopLimitDefaultMs = 25_000;
const closeLimitMs = 2_000;

const help = `Usage: latchkey worker [options]

Runs deferred operations, delivers effects, resumes, reconciles and cleans, until it is stopped; with --once, until nothing
is due. Any number of workers may run on the same tables. It prints a line of JSON when it is ready, when it begins to stop,
and when it has stopped.

The config is a module whose default export is { latchkey, worker, close }: the result of \`createLatchkey\`, options of
\`startWorker\`, and a function called at the end. The last two are optional.

  --config <file>         the config; default: ${configDefault}
  --once                  do what is due and exit, for scheduled jobs; the last line reports what was done
  --until-ms <n>          with --once: start nothing new after this time; default: 60000
  --health-port <n>       answer GET on this port with 200 or 503 and JSON; 0: any free one, which the first line names.
                          /metrics has Prometheus' text, if the config has \`metrics\`
  --health-host <address> the address to listen on; default: all
  --stop-limit-ms <n>     how long work under way may take after SIGTERM or SIGINT; default: the config's, or
                          ${stopLimitDefaultMs}

After SIGTERM or SIGINT the worker starts nothing new and waits for work under way. A second one ends the process at once.

Exit codes: 0 stopped with nothing under way, 1 failed, or work was under way at the limit, 2 called wrongly or
invalid config, 130 or 143 ended by a second SIGINT or SIGTERM.`;

export const worker: Command = {
  summary: "run deferred work, deliver effects, and keep the tables in order",
  help,
  async run(context) {
    const options = readOptions(context.args);
    const stopping = stopSignals();
    // The services' timers and idle connections do not keep the process alive.
    const held = setInterval(() => {}, 2 ** 30);
    try {
      const config = await loadConfig(resolve(context.cwd, options.config));
      const run = { context, config, stopSignal: stopping.first, stopLimitMs: stopLimitOf(config, options) };
      return await (options.once === null
        ? runUntilStopped(run, options.health)
        : runOnce(run, options.once));
    } finally {
      clearInterval(held);
      stopping.forget();
    }
  },
};

interface Options {
  readonly config: string;
  readonly health: { readonly port: number; readonly host: string | undefined } | null;
  /** Null: the config's. */
  readonly stopLimitMs: number | null;
  /** Null: run until stopped. */
  readonly once: { readonly untilMs: number | undefined } | null;
}

function readOptions(args: readonly string[]): Options {
  const { values } = parse({
    args: [...args],
    options: {
      config: { type: "string" },
      once: { type: "boolean" },
      "until-ms": { type: "string" },
      "health-port": { type: "string" },
      "health-host": { type: "string" },
      "stop-limit-ms": { type: "string" },
    },
  });
  const { "health-port": port, "health-host": host, "stop-limit-ms": limit, "until-ms": until } = values;
  if (host !== undefined && port === undefined) throw new UsageError("--health-host needs --health-port.");
  if (until !== undefined && !values.once) throw new UsageError("--until-ms needs --once.");
  if (values.once && port !== undefined) throw new UsageError("--once and --health-port exclude each other.");
  const untilMs = until === undefined ? undefined : wholeNumber("until-ms", until, 1, 86_400_000);
  return {
    config: values.config ?? configDefault,
    health: port === undefined ? null : { port: wholeNumber("health-port", port, 0, 65_535), host },
    stopLimitMs: limit === undefined ? null : wholeNumber("stop-limit-ms", limit, 1, 86_400_000),
    once: values.once ? { untilMs } : null,
  };
}

function stopLimitOf(config: LatchkeyConfig<unknown>, options: Options): number {
  return options.stopLimitMs ?? config.worker?.stopLimitMs ?? stopLimitDefaultMs;
}

interface WorkerRun {
  readonly context: CommandContext;
  readonly config: LatchkeyConfig<unknown>;
  readonly stopSignal: Promise<NodeJS.Signals>;
  readonly stopLimitMs: number;
}

async function runUntilStopped(run: WorkerRun, wanted: Options["health"]): Promise<ExitCode> {
  const { context, config, stopSignal, stopLimitMs } = run;
  const { latchkey } = config;
  let started: Worker | null = null;
  let health: HealthServer | null = null;
  let graceful = true;
  try {
    if (wanted !== null) health = await openHealth(wanted, config, () => started);
    const { store } = latchkey.runtime;
    await store.verify();
    started = latchkey.startWorker({ ...config.worker, stopLimitMs });
    say(context, { ready: true, pid: process.pid, store: store.name, healthPort: health?.port ?? null });
    say(context, { stopping: true, signal: await stopSignal });
    graceful = await started.stop();
  } finally {
    await closeInTime(config);
    await health?.close();
  }
  say(context, { stopped: true, graceful });
  return exitCodeOf(run, graceful);
}

/** Loaded only here: an import of `node:http` loads Node's `fetch` too, a quarter of a command's start. */
async function openHealth(
  wanted: NonNullable<Options["health"]>,
  config: LatchkeyConfig<unknown>,
  started: () => Worker | null,
): Promise<HealthServer> {
  const { healthView, serveHealth } = await import("./worker-health.ts");
  return serveHealth(wanted, { health: () => healthView(started()), metrics: metricsOf(config) });
}

async function runOnce(run: WorkerRun, { untilMs }: NonNullable<Options["once"]>): Promise<ExitCode> {
  const { context, config, stopSignal, stopLimitMs } = run;
  const { latchkey } = config;
  const stop = new AbortController();
  void stopSignal.then((signal) => {
    say(context, { stopping: true, signal });
    stop.abort();
  });
  let report: WorkReport;
  try {
    const { store } = latchkey.runtime;
    await store.verify();
    say(context, { ready: true, pid: process.pid, store: store.name, once: true });
    const until = untilMs === undefined ? {} : { untilMs };
    report = await latchkey.work({ ...config.worker, ...until, stopLimitMs, signal: stop.signal });
  } finally {
    await closeInTime(config);
  }
  const { inTime: graceful, ...done } = report;
  say(context, { stopped: true, graceful, ...done });
  return exitCodeOf(run, graceful);
}

function say({ print }: CommandContext, line: Readonly<Record<string, unknown>>): void {
  print(JSON.stringify(line));
}

function exitCodeOf({ context, stopLimitMs }: WorkerRun, graceful: boolean): ExitCode {
  if (!graceful)
    context.complain(
      `Work was still under way after ${stopLimitMs} ms. Others take it over when its leases end.`,
    );
  return graceful ? 0 : 1;
}

/** If the store cannot be read, the process's own counters are still shown, without gauges. */
function metricsOf({ latchkey, metrics }: LatchkeyConfig<unknown>): (() => Promise<string>) | null {
  if (metrics === undefined) return null;
  return async () => metrics.text(await latchkey.overview().catch(() => undefined));
}

/** Limited, because work under way may still hold what the config closes. */
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
