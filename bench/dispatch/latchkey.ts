import { createLatchkey } from "latchkey";
import { migratePostgres, postgresStore } from "latchkey/postgres";
import pg from "pg";
import type { Asked, Job, Queue } from "./queue.ts";

/** For effects that return at once: as many at a time as pg-boss fetches here. */
const worker = { effectDispatcher: { batchSize: 500 } };
/** The number of effects per business transaction while jobs are added in bulk. */
const perTransaction = 100;

interface Settings {
  readonly notify: boolean;
  /** Whether a delivered effect is kept for a day, as by default. Queues that remove ended jobs are compared with `false`. */
  readonly keep: boolean;
}

export async function openLatchkey(connectionString: string, { notify, keep }: Settings): Promise<Queue> {
  const pool = new pg.Pool({ connectionString });
  const latchkey = createLatchkey({ store: postgresStore({ pool, notify }), onEvent: report });
  let handle: (job: Job) => void = () => {};
  const effect = latchkey.effect<Job, null>("bench", {
    deduplication: "provider",
    dedupeWindowMs: 24 * 60 * 60 * 1000,
    ...(keep ? {} : { delivery: { keepMs: 0 } }),
    execute: async (job) => {
      handle(job);
      return null;
    },
  });
  const operation = latchkey.operation("bench.add");
  const later = latchkey.operation("bench.later", {
    execution: "deferred",
    version: "1",
    run: async (input: Asked) => ({ body: input }),
  });
  const ask = (key: string) => latchkey.run(later, { tenant: "bench", key, input: { name: key } });
  const enqueue = (jobs: readonly Job[]) =>
    latchkey.run(
      operation,
      { tenant: "bench", key: crypto.randomUUID(), input: null },
      async ({ attempt }) => {
        for (const job of jobs) attempt.enqueue(effect, job);
      },
    );
  return {
    prepare: async () => void (await migratePostgres(pool)),
    async add(jobs) {
      for (let at = 0; at < jobs.length; at += perTransaction) {
        const ran = await enqueue(jobs.slice(at, at + perTransaction));
        if (ran.kind !== "executed") throw new Error(`not added: ${ran.kind}`);
      }
    },
    async work(given) {
      handle = given;
      latchkey.startWorker(worker);
    },
    async answer() {
      latchkey.startWorker();
    },
    async request() {
      const key = crypto.randomUUID();
      const asked = await ask(key);
      if (asked.kind !== "accepted") throw new Error(`not accepted: ${asked.kind}`);
      return key;
    },
    async isAnswered(key) {
      const reply = await ask(key);
      if (reply.kind !== "accepted" && reply.kind !== "replay")
        throw new Error(`not answered: ${reply.kind}`);
      return reply.kind === "replay";
    },
    async close() {
      await latchkey.close();
      await pool.end();
    },
  };
}

function report(event: { readonly type: string; readonly error?: unknown }): void {
  if ("error" in event) console.error(event.type, event.error);
}
