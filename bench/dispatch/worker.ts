/** The process of a measured worker, from the side of the measuring process. */
import { join } from "node:path";
import { spawnWorker, type WorkerLine, type WorkerProcess } from "../../test/support/processes.ts";
import { until } from "../../test/support/until.ts";
import type { QueueName } from "./subject.ts";

const workerPath = join(import.meta.dirname, "worker-process.ts");
const drainLimitMs = 180_000;

export type WorkOn = "jobs" | "requests";

export async function startWorker(name: QueueName, url: string, on: WorkOn): Promise<WorkerProcess> {
  const worker = spawnWorker(workerPath, {
    args: [name, url, on],
    env: { NODE_ENV: "production", NODE_OPTIONS: "" },
  });
  await worker.ready(30_000);
  return worker;
}

/** Its report once this many jobs were handled. */
export async function handledAll(worker: WorkerProcess, count: number): Promise<WorkerLine> {
  await until(async () => Number((await ask(worker)).handled) >= count, {
    what: `${count} jobs are handled`,
    timeoutMs: drainLimitMs,
  });
  const counts = await ask(worker);
  if (Number(counts.handled) > count) throw new Error(`${counts.handled} jobs handled of ${count}`);
  return counts;
}

let asked = 0;

export function ask(worker: WorkerProcess): Promise<WorkerLine> {
  asked += 1;
  const mine = asked;
  worker.send({ ask: mine });
  return worker.line((line) => line.replyTo === mine);
}
