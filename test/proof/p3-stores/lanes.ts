/** Lanes in threads, which draw batches until nothing is left. */
import { Worker } from "node:worker_threads";
import { type Batch, type BatchResult, nothingPlayed, sum } from "./batch.ts";
import type { Place } from "./bench.ts";

type Work = (message: Batch | "close") => Promise<BatchResult>;

/**
 * Plays what `next` hands out, as long as it does and nothing has failed.
 *
 * @throws whatever a thread throws
 */
export async function inThreads(
  count: number,
  postgres: Place["postgres"],
  next: () => Batch | null,
  played: (total: BatchResult) => void,
): Promise<BatchResult> {
  let total = nothingPlayed;
  await withThreads(count, postgres, async (work) => {
    for (let batch = next(); batch !== null && total.failure === null; batch = next()) {
      const result = await work(batch);
      // Not before: others have added theirs meanwhile.
      total = sum(total, result);
      played(total);
    }
  });
  return total;
}

async function withThreads(
  count: number,
  postgres: Place["postgres"],
  use: (work: Work) => Promise<void>,
): Promise<void> {
  const url = new URL("./lane-worker-process.ts", import.meta.url);
  const threads = Array.from({ length: count }, (_, index) => {
    return new Worker(url, { workerData: { lane: index + 1, postgres } satisfies Place });
  });
  try {
    await Promise.all(
      threads.map(async (thread) => {
        const work: Work = (message) => answerOf(thread, message);
        await use(work);
        await work("close");
      }),
    );
  } finally {
    await Promise.all(threads.map((thread) => thread.terminate()));
  }
}

function answerOf(thread: Worker, message: Batch | "close"): Promise<BatchResult> {
  const { promise, resolve, reject } = Promise.withResolvers<BatchResult>();
  thread.once("message", resolve);
  thread.once("error", reject);
  thread.postMessage(message);
  return promise.finally(() => {
    thread.off("message", resolve);
    thread.off("error", reject);
  });
}
