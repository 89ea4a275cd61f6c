import {
  type AddJobsJobSpec,
  Logger,
  makeWorkerUtils,
  type Runner,
  run,
  type TaskList,
} from "graphile-worker";
import { openAnswers } from "./answers.ts";
import type { Asked, Job, Queue } from "./queue.ts";

const identifier = "bench";
const requests = "bench_requests";
const silent = new Logger(() => () => {});
/** The settings with which its documentation measures: a local queue, and completions in batches. */
const worker = {
  concurrentJobs: 24,
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
};
const addRequest = "select from graphile_worker.add_job($1, $2::json)";

export async function openGraphileWorker(connectionString: string): Promise<Queue> {
  const utils = await makeWorkerUtils({ connectionString, logger: silent });
  const answers = openAnswers(connectionString);
  let runner: Runner | null = null;
  const begin = async (taskList: TaskList) => {
    runner = await run({
      preset: { worker: { ...worker, connectionString, logger: silent } },
      noHandleSignals: true,
      taskList,
    });
  };
  return {
    async prepare() {
      await utils.migrate();
      await answers.prepare();
    },
    add: async (jobs) => {
      const specs: AddJobsJobSpec[] = jobs.map((job) => ({ identifier, payload: job }));
      await utils.addJobs(specs);
    },
    work: (handle) => begin({ [identifier]: (job) => handle(job as Job) }),
    answer: () => begin({ [requests]: (asked) => answers.answer(asked as Asked) }),
    request: () =>
      answers.request((client, asked) =>
        client.query({ name: "add", text: addRequest, values: [requests, asked] }),
      ),
    isAnswered: answers.isAnswered,
    async close() {
      await runner?.stop();
      await utils.release();
      await answers.close();
    },
  };
}
