/**
 * Acts on all entries that match a filter: first checks them, then runs. The checked entries are stored here by name, so that
 * later ones are not affected. Jobs belong to this process and end with it; each of their decisions is complete in itself.
 */
import type { Ports } from "latchkey";
import { Refusal } from "./replies.ts";
import type { JobView } from "./wire.ts";

/** The result for one entry of a job: null if it succeeded, otherwise why it was refused. */
export type JobResult = { readonly title: string; readonly detail: string } | null;

export interface JobItem {
  /** The name that is shown to people. */
  readonly name: string;
  run(): Promise<JobResult>;
}

export interface NewJob {
  readonly operator: string;
  readonly reason: string;
  readonly items: readonly JobItem[];
  readonly more: boolean;
}

interface Job extends NewJob {
  readonly id: string;
  readonly madeAt: number;
  state: JobView["state"];
  startedAt: number | null;
  done: number;
  refused: number;
  readonly refusals: { readonly name: string; readonly title: string; readonly detail: string }[];
}

export interface Jobs {
  /** Stores the job without running it. */
  check(job: NewJob): JobView;
  /** @throws {Refusal} if the job does not exist, belongs to another person, or has another count. */
  run(id: string, operator: string, count: number): JobView;
  /** Null: it does not exist, or no longer. */
  find(id: string): JobView | null;
  /** Running and recently ended jobs, latest first. */
  recent(): readonly JobView[];
}

const jobsMax = 20;
const keptMs = 60 * 60 * 1_000;
const refusalsMax = 20;
/** Decisions at the same time. More would take the connections of the service's own requests. */
const concurrency = 4;

export function createJobs({ clock, random }: Ports): Jobs {
  const now = () => clock.wallMs();
  const jobs = new Map<string, Job>();
  const tidy = () => {
    for (const [id, { state, madeAt }] of jobs) {
      const isOld = now() - madeAt > keptMs || jobs.size >= jobsMax;
      if (state !== "running" && isOld) jobs.delete(id);
    }
  };
  return {
    check(given) {
      tidy();
      const fresh = { state: "checked", startedAt: null, done: 0, refused: 0, refusals: [] } as const;
      const job: Job = { ...given, ...fresh, refusals: [], id: random.uuid(now()), madeAt: now() };
      jobs.set(job.id, job);
      return viewOf(job);
    },
    run(id, operator, count) {
      const job = jobs.get(id);
      if (job === undefined || job.operator !== operator) {
        throw new Refusal(
          404,
          "Nothing was done. Your check is no longer stored.",
          "Check again: this process has been restarted since, or an hour has passed.",
        );
      }
      if (job.state !== "checked") return viewOf(job);
      if (count !== job.items.length) {
        throw new Refusal(
          409,
          `Nothing was done. You typed ${count}, and ${job.items.length} were checked.`,
          "Check the number.",
        );
      }
      job.state = "running";
      job.startedAt = now();
      void runAll(job);
      return viewOf(job);
    },
    find: (id) => {
      const job = jobs.get(id);
      return job === undefined ? null : viewOf(job);
    },
    recent: () =>
      [...jobs.values()]
        .filter(({ state }) => state !== "checked")
        .map(viewOf)
        .reverse(),
  };
}

async function runAll(job: Job): Promise<void> {
  const left = job.items[Symbol.iterator]();
  const one = async () => {
    for (const item of left) {
      const result = await item.run().catch(problemOf);
      if (result === null) job.done += 1;
      else {
        job.refused += 1;
        if (job.refusals.length < refusalsMax) job.refusals.push({ name: item.name, ...result });
      }
    }
  };
  await Promise.all(Array.from({ length: concurrency }, one));
  job.state = "finished";
}

function problemOf(error: unknown): JobResult {
  if (error instanceof Refusal) return error.problem;
  return {
    title: "Not done. The store was not available.",
    detail: error instanceof Error ? error.message : String(error),
  };
}

function viewOf(job: Job): JobView {
  const { id, state, operator, reason, startedAt, items, more, done, refused, refusals } = job;
  return {
    id,
    state,
    operator,
    reason,
    startedAt: startedAt === null ? null : new Date(startedAt).toISOString(),
    total: items.length,
    more,
    done,
    refused,
    refusals: [...refusals],
  };
}
