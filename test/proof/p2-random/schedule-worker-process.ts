/** One thread of the tier: runs each batch that it is sent, and answers with what came of it. */
import { parentPort } from "node:worker_threads";
import { type Batch, runBatch } from "./batch.ts";

// Most errors in here are planned ones, and nobody reads their stacks.
Error.stackTraceLimit = 0;

parentPort?.on("message", (batch: Batch) => {
  void runBatch(batch).then((result) => parentPort?.postMessage(result));
});
