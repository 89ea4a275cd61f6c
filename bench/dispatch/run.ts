/** Runs queues in turn: in every round each processes a backlog, and is then woken for single jobs. */
import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";
import { until } from "../../test/support/until.ts";
import { nowMs, type Queue } from "./queue.ts";
import { pollsOnly, type QueueName, queues } from "./subject.ts";
import { ask, handledAll, startWorker } from "./worker.ts";

export interface DispatchPlan {
  /** The URL of a Postgres in which databases may be created. */
  readonly url: string;
  readonly names: readonly QueueName[];
  readonly rounds: number;
  /** Jobs in a backlog. */
  readonly backlog: number;
  /** Single jobs, one after the other. */
  readonly singles: number;
  readonly databaseCpu: () => number | null;
}

export interface DispatchMeasurement {
  readonly name: QueueName;
  readonly round: number;
  /** Null for a queue that differs from another only in how it is woken. */
  readonly jobsPerSecond: number | null;
  readonly workerMicros: number | null;
  readonly databaseMicros: number | null;
  /** From before the call that adds a job until its handler starts, on an idle queue. */
  readonly wakeUpMs: readonly number[];
  /** From before a request until its answer is read, with the work done by another process, on an idle queue. */
  readonly answeredMs: readonly number[];
}

/** Jobs in one call. */
const bulk = 500;
/** Keeps single jobs out of step with polling. */
const gapMs = 20;
/** Between two reads of an answer. */
const lookEveryMs = 1;

export async function* measureDispatch(plan: DispatchPlan): AsyncGenerator<DispatchMeasurement> {
  for (let round = 1; round <= plan.rounds; round++) {
    const names = round % 2 === 0 ? plan.names.toReversed() : plan.names;
    for (const name of names) yield await turn(plan, name, round);
  }
}

async function turn(plan: DispatchPlan, name: QueueName, round: number): Promise<DispatchMeasurement> {
  const url = await freshDatabase(plan.url);
  const queue = await queues[name](url);
  try {
    await queue.prepare();
    const backlog = pollsOnly(name) ? null : await workOff(plan, name, url, queue);
    const wakeUpMs = await wake(plan, name, url, queue);
    const answeredMs = await answer(plan, name, url, queue);
    return {
      jobsPerSecond: null,
      workerMicros: null,
      databaseMicros: null,
      ...backlog,
      name,
      round,
      wakeUpMs,
      answeredMs,
    };
  } finally {
    await queue.close();
  }
}

async function workOff(plan: DispatchPlan, name: QueueName, url: string, queue: Queue) {
  for (let added = 0; added < plan.backlog; added += bulk) {
    await queue.add(
      Array.from({ length: Math.min(bulk, plan.backlog - added) }, () => ({ addedAtMs: nowMs() })),
    );
  }
  // As in a queue that has been in use for a while: without it, pg-boss takes twice as long for a job.
  await inDatabase(url, "analyze");
  const databaseBefore = plan.databaseCpu();
  const worker = await startWorker(name, url, "jobs");
  const counts = await handledAll(worker, plan.backlog);
  const databaseAfter = plan.databaseCpu();
  await worker.kill("SIGTERM");
  return {
    jobsPerSecond: (plan.backlog * 1_000) / (Number(counts.lastAtMs) - Number(counts.firstAtMs)),
    workerMicros: Number(counts.cpuMicros) / plan.backlog,
    databaseMicros:
      databaseBefore === null || databaseAfter === null
        ? null
        : (databaseAfter - databaseBefore) / plan.backlog,
  };
}

async function wake(
  plan: DispatchPlan,
  name: QueueName,
  url: string,
  queue: Queue,
): Promise<readonly number[]> {
  const worker = await startWorker(name, url, "jobs");
  for (let sent = 1; sent <= singlesOf(plan, name); sent++) {
    await queue.add([{ addedAtMs: nowMs() }]);
    await handledAll(worker, sent);
    await gap();
  }
  const { latenciesMs } = await ask(worker);
  await worker.kill("SIGTERM");
  return latenciesMs as readonly number[];
}

async function answer(
  plan: DispatchPlan,
  name: QueueName,
  url: string,
  queue: Queue,
): Promise<readonly number[]> {
  const worker = await startWorker(name, url, "requests");
  const answeredMs: number[] = [];
  for (let asked = 1; asked <= singlesOf(plan, name); asked++) {
    const askedAtMs = nowMs();
    const request = await queue.request();
    await until(() => queue.isAnswered(request), { what: "a request is answered", intervalMs: lookEveryMs });
    answeredMs.push(nowMs() - askedAtMs);
    await gap();
  }
  await worker.kill("SIGTERM");
  return answeredMs;
}

/** Polls take up to a second each. */
function singlesOf({ singles }: DispatchPlan, name: QueueName): number {
  return pollsOnly(name) ? Math.ceil(singles / 10) : singles;
}

function gap(): Promise<void> {
  return pause(gapMs * (0.5 + Math.random()));
}

async function freshDatabase(url: string): Promise<string> {
  const name = `bench_${randomUUID().replaceAll("-", "")}`;
  await inDatabase(url, `create database ${name}`);
  return Object.assign(new URL(url), { pathname: `/${name}` }).href;
}

async function inDatabase(url: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(sql);
  await client.end();
}
