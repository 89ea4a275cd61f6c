/**
 * A worker over a Redis store, in a process that tests kill. Arguments: the URL; `hang` to stay inside the second call.
 * What its calls send to the other side goes to a list in Redis under another name, with their keys.
 */
import { Redis } from "ioredis";
import { createLatchkey } from "latchkey";
import { redisStore } from "latchkey/redis";
import { defineReport } from "./report.ts";

const [url = "", mode = ""] = process.argv.slice(2);
const client = new Redis(url);
client.on("error", () => {});
const latchkey = createLatchkey({ store: redisStore({ client, onWarning() {} }) });
defineReport(latchkey, async (step, key) => {
  await client.rpush("other side", `${step} ${key}`);
  if (mode !== "hang" || step !== "second") return;
  process.stdout.write(`${JSON.stringify({ inside: step })}\n`);
  await new Promise(() => {});
});
const every = { intervalMs: 100 };
const worker = latchkey.startWorker({ pendingWork: every, leaseRescuer: every, recordCleaner: every });
process.stdout.write(`${JSON.stringify({ ready: true })}\n`);
process.once("SIGTERM", async () => {
  await worker.stop();
  client.disconnect();
});
