/** One thread of the tier: plays each batch that it is sent in a lane of its own, and answers with what came of it. */
import { parentPort, workerData } from "node:worker_threads";
import { type Batch, runBatch } from "./batch.ts";
import type { Place } from "./bench.ts";
import { Lane } from "./lane.ts";
import { stores } from "./stores.ts";

const opened = Lane.open(stores, workerData as Place);

parentPort?.on("message", (message: Batch | "close") => {
  void answer(message).then((result) => parentPort?.postMessage(result));
});

async function answer(message: Batch | "close") {
  const lane = await opened;
  return message === "close" ? lane.close() : runBatch(lane, message);
}
