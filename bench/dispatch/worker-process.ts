/**
 * A worker that is measured: `worker-process.ts <queue> <url> jobs|requests`. It answers each line `{"ask":n}` on stdin with
 * its progress so far.
 */
import { createInterface } from "node:readline";
import { type Job, nowMs } from "./queue.ts";
import { type QueueName, queues } from "./subject.ts";
import type { WorkOn } from "./worker.ts";

const [name, url, on] = process.argv.slice(2) as [QueueName, string, WorkOn];

const latenciesMs: number[] = [];
let handled = 0;
let firstAtMs = 0;
let lastAtMs = 0;

const queue = await queues[name](url);
// Loading the code does not count towards any job.
const loaded = process.cpuUsage();
const handle = ({ addedAtMs }: Job) => {
  lastAtMs = nowMs();
  if (handled === 0) firstAtMs = lastAtMs;
  handled += 1;
  latenciesMs.push(lastAtMs - addedAtMs);
};
await (on === "jobs" ? queue.work(handle) : queue.answer());
write({ ready: true });

createInterface({ input: process.stdin }).on("line", (line) => {
  const { ask } = JSON.parse(line) as { ask: number };
  const { user, system } = process.cpuUsage(loaded);
  // Other jobs may still be running when the progress is requested.
  const latencies = handled > 2_000 ? [] : latenciesMs;
  write({ replyTo: ask, handled, firstAtMs, lastAtMs, cpuMicros: user + system, latenciesMs: latencies });
});

process.once("SIGTERM", () => process.exit(0));

function write(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}
