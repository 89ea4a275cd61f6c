import { type AddJobsJobSpec, Logger, makeWorkerUtils, type Runner, run } from "graphile-worker";
import type { Job, Queue } from "./queue.ts";

const identifier = "bench";
const silent = new Logger(() => () => {});
/** What its documentation measures with: a local queue, and ends of jobs in batches. */
const worker = {
  concurrentJobs: 24,
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
};

export async function openGraphileWorker(connectionString: string): Promise<Queue> {
  const utils = await makeWorkerUtils({ connectionString, logger: silent });
  let runner: Runner | null = null;
  return {
    prepare: () => utils.migrate(),
    add: async (jobs) => {
      const specs: AddJobsJobSpec[] = jobs.map((job) => ({ identifier, payload: job }));
      await utils.addJobs(specs);
    },
    async work(handle) {
      runner = await run({
        preset: { worker: { ...worker, connectionString, logger: silent } },
        noHandleSignals: true,
        taskList: { [identifier]: (job) => handle(job as Job) },
      });
    },
    async close() {
      await runner?.stop();
      await utils.release();
    },
  };
}
