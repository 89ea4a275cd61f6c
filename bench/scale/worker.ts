/** The measured processes, from the side of the measuring process. */
import { join } from "node:path";
import { spawnWorker, type WorkerProcess } from "../../test/support/processes.ts";

const path = join(import.meta.dirname, "worker-process.ts");

interface Traffic {
  readonly schema: string;
  readonly concurrency: number;
  readonly seconds: number;
  /** Size of the answer's text. */
  readonly bytes: number;
  /** The prefix of its keys. */
  readonly prefix: string;
}

export type Job =
  | (Traffic & { readonly kind: "first" | "brief" | "again" })
  /** Of filled records that are not due. */
  | (Traffic & { readonly kind: "replay"; readonly rows: number })
  /** Batches of up to 1,000, with a pause after each. Empty batches do not count. */
  | {
      readonly kind: "clean";
      readonly schema: string;
      readonly seconds: number;
      readonly pauseMs: number;
      readonly batchesMax: number;
    };

export interface Turn {
  readonly count: number;
  readonly tookMs: number;
  readonly cpuMicros: number;
  /** NaN if nothing was done. */
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export async function startWorkers(
  url: string,
  count: number,
  connections: number,
): Promise<WorkerProcess[]> {
  const workers = Array.from({ length: count }, () =>
    spawnWorker(path, {
      args: [url, String(connections)],
      env: { NODE_ENV: "production", NODE_OPTIONS: "" },
    }),
  );
  await Promise.all(workers.map((worker) => worker.ready(30_000)));
  return workers;
}

let turns = 0;

export async function runTurn(worker: WorkerProcess, job: Job): Promise<Turn> {
  turns += 1;
  const mine = turns;
  worker.send({ turn: mine, job });
  const limitMs = job.seconds * 1_000 + 60_000;
  const { count, tookMs, cpuMicros, p50Ms, p99Ms } = await worker.line(
    (line) => line.replyTo === mine,
    limitMs,
  );
  // JSON has no NaN.
  const ms = (value: unknown) => Number(value ?? Number.NaN);
  return {
    count: Number(count),
    tookMs: Number(tookMs),
    cpuMicros: Number(cpuMicros),
    p50Ms: ms(p50Ms),
    p99Ms: ms(p99Ms),
  };
}
