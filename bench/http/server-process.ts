/**
 * One server that is measured: `server-process.ts <framework> <job> <guard>`. It writes its address as one line of JSON, and
 * answers each line `{"ask":n}` on stdin with its usage so far.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { fixedAnswerCount } from "./jobs.ts";
import { startListener } from "./listener.ts";
import type { Framework, Guard, Job } from "./subject.ts";

const [framework, job, guard] = process.argv.slice(2) as [Framework, Job, Guard];

const server = createServer(await startListener(framework, job, guard));
server.listen(0, "127.0.0.1");
await once(server, "listening");
write({ ready: true, port: (server.address() as AddressInfo).port });

createInterface({ input: process.stdin }).on("line", (line) => {
  const { ask } = JSON.parse(line) as { ask: number };
  const { user, system } = process.cpuUsage();
  write({ replyTo: ask, cpuMicros: user + system, handled: fixedAnswerCount() });
});

// An exit that Node notices, so that it writes the requested profile.
process.once("SIGTERM", () => process.exit(0));

function write(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}
