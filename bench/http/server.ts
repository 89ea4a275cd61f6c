/** Server processes under measurement. */
import { join } from "node:path";
import { spawnWorker, type WorkerProcess } from "../../test/support/processes.ts";
import { prime } from "./load.ts";
import type { Subject } from "./subject.ts";

/** What a server has used since it started. */
export interface Usage {
  readonly cpuMicros: number;
  /** How often its handler for the fixed answer has run. */
  readonly handled: number;
}

export interface Server {
  readonly url: string;
  usage(): Promise<Usage>;
  stop(): Promise<void>;
}

export interface ServerOptions {
  /** The checkout to run it from. */
  readonly root: string;
  readonly env: Readonly<Record<string, string>>;
  /** Where to write a CPU profile when it stops. Absent: none. */
  readonly profileDir?: string | undefined;
}

export async function startServer(subject: Subject, options: ServerOptions): Promise<Server> {
  const { framework, job, guard } = subject;
  const { root, env, profileDir } = options;
  const worker = spawnWorker(join(root, "bench/http/server-process.ts"), {
    args: [framework, job, guard],
    env: { ...env, NODE_ENV: "production", NODE_OPTIONS: "" },
    execArgv:
      profileDir === undefined
        ? []
        : [
            "--cpu-prof",
            `--cpu-prof-dir=${profileDir}`,
            `--cpu-prof-name=${framework}-${job}-${guard}.cpuprofile`,
          ],
  });
  const { port } = await worker.ready(60_000);
  const url = `http://127.0.0.1:${port}`;
  const server: Server = {
    url,
    usage: () => usageOf(worker),
    stop: async () => void (await worker.kill("SIGTERM")),
  };
  if (job === "replay" && guard !== "none") await primed(server);
  return server;
}

/** Every key has its answer, and requesting them again runs no handler: so the measurement consists of replays. */
async function primed(server: Server): Promise<void> {
  const keys = await prime(server.url);
  await prime(server.url);
  const { handled } = await server.usage();
  if (handled !== keys) throw new Error(`${handled} handlers ran for ${keys} keys`);
}

let asked = 0;

async function usageOf(worker: WorkerProcess): Promise<Usage> {
  asked += 1;
  const ask = asked;
  worker.send({ ask });
  const { cpuMicros, handled } = await worker.line((line) => line.replyTo === ask);
  return { cpuMicros: Number(cpuMicros), handled: Number(handled) };
}
