import { PgBoss } from "pg-boss";
import { openAnswers } from "./answers.ts";
import type { Asked, Job, Queue } from "./queue.ts";

const name = "bench";
const requests = "bench-requests";
/** Whole batches at once and no pause while they are full: its fastest way to process a queue. */
const options = { batchSize: 500, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 };

/** @param each whether every job of a batch ends separately; otherwise one failed job makes the whole batch run again */
export async function openPgBoss(
  connectionString: string,
  { notify, each }: { readonly notify: boolean; readonly each: boolean },
): Promise<Queue> {
  const boss = new PgBoss({ connectionString, useListenNotify: notify, schedule: false });
  const answers = openAnswers(connectionString);
  boss.on("error", (error) => console.error(error));
  await boss.start();
  return {
    async prepare() {
      for (const queue of [name, requests]) await boss.createQueue(queue, { notify });
      await answers.prepare();
    },
    add: async (jobs) => {
      const rows = jobs.map((job) => ({ data: job }));
      await boss.insert(name, rows);
    },
    async work(handle) {
      if (each) {
        await boss.work<Job, null, typeof options & { readonly perJobResults: true }>(
          name,
          { ...options, perJobResults: true },
          async (jobs) => {
            for (const { data } of jobs) handle(data);
            return jobs.map(({ id }) => ({ id, status: "completed" as const }));
          },
        );
        return;
      }
      await boss.work<Job>(name, options, async (jobs) => {
        for (const { data } of jobs) handle(data);
      });
    },
    async answer() {
      await boss.work<Asked>(requests, options, async (jobs) => {
        await Promise.all(jobs.map(({ data }) => answers.answer(data)));
      });
    },
    request: () =>
      answers.request((client, asked) => {
        const db = { executeSql: (text: string, values?: unknown[]) => client.query(text, values) };
        return boss.send(requests, asked, { db });
      }),
    isAnswered: answers.isAnswered,
    async close() {
      await boss.stop({ graceful: false });
      await answers.close();
    },
  };
}
