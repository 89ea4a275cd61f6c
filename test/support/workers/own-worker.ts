import { join } from "node:path";
import { spawnWorker } from "../processes.ts";

/** Starts a worker, freezes it, says so, and waits to be killed. */
const worker = spawnWorker(join(import.meta.dirname, "echo.ts"));
await worker.ready();
await worker.freeze();
console.log(JSON.stringify({ ready: true, worker: worker.pid }));
