/** The load generator: closed loop, one request at a time on each connection, a body and a key for every request. */
import { randomUUID } from "node:crypto";
import autocannon, { type LoadRequest } from "autocannon";
import { accountCount } from "./jobs.ts";
import type { Job } from "./subject.ts";

/** The number of keys that replays use in turn. */
const replayKeyCount = 200;
const endLookMs = 20;

export interface Sample {
  readonly requestsPerSecond: number;
  readonly completed: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Answers that were not 2xx, broken connections and time-outs. */
  readonly failed: number;
}

export interface LoadOptions {
  readonly url: string;
  readonly job: Job;
  readonly connections: number;
  readonly seconds: number;
  /** Whether the generator polls instead of sleeping, which takes a core: then no server pays for waking it. */
  readonly awake: boolean;
}

export async function load({ url, job, connections, seconds, awake }: LoadOptions): Promise<Sample> {
  const requests = [{ ...requestTo(job), setupRequest: job === "order" ? newOrder : replayTo(url) }];
  const run = autocannon({ url, connections, duration: seconds, sampleInt: endLookMs, requests });
  const times: number[] = [];
  run.on("response", (_client: unknown, _status: number, _bytes: number, milliseconds: number) => {
    times.push(milliseconds);
  });
  const sleepAgain = awake ? stayAwake() : () => {};
  const { start, finish, errors, timeouts, non2xx } = await Promise.resolve(run).finally(sleepAgain);
  times.sort((left, right) => left - right);
  return {
    requestsPerSecond: (times.length * 1000) / (finish.getTime() - start.getTime()),
    completed: times.length,
    p50Ms: quantile(times, 0.5),
    p99Ms: quantile(times, 0.99),
    failed: errors + timeouts + non2xx,
  };
}

/** An event loop that always has something to do never waits in the kernel. */
function stayAwake(): () => void {
  let next = setImmediate(function again() {
    next = setImmediate(again);
  });
  return () => clearImmediate(next);
}

/** @throws {Error} if a new order is not answered with 201 */
export async function sendFirst(url: string): Promise<void> {
  const { method = "", path = "", headers = {}, body = "" } = newOrder(requestTo("order"));
  const response = await fetch(url + path, { method, body, headers });
  if (response.status !== 201) throw new Error(`A first request was answered with ${response.status}`);
  await response.arrayBuffer();
}

/** Sends each replay key once, so that it has a stored answer. */
export async function prime(url: string): Promise<number> {
  const { method = "", path = "", headers = {}, body = "" } = requestTo("replay");
  for (let number = 0; number < replayKeyCount; number++) {
    const key = replayKey(url, number);
    const response = await fetch(url + path, {
      method,
      body,
      headers: { ...headers, "idempotency-key": key },
    });
    if (response.status !== 201) throw new Error(`A first request was answered with ${response.status}`);
    await response.arrayBuffer();
  }
  return replayKeyCount;
}

function requestTo(job: Job): LoadRequest {
  return {
    method: "POST",
    path: `/${job}`,
    headers: { "content-type": "application/json", "x-tenant": "bench" },
    body: JSON.stringify({ account: 1, item: "book", amount: 42 }),
  };
}

function newOrder(request: LoadRequest): LoadRequest {
  const account = 1 + Math.floor(Math.random() * accountCount);
  const body = JSON.stringify({ account, item: "book", amount: 42 });
  return { ...request, headers: { ...request.headers, "idempotency-key": randomUUID() }, body };
}

function replayTo(url: string): (request: LoadRequest) => LoadRequest {
  let sent = 0;
  return (request) => {
    sent += 1;
    return {
      ...request,
      headers: { ...request.headers, "idempotency-key": replayKey(url, sent % replayKeyCount) },
    };
  };
}

/** Servers share their stores, so each has its own keys. */
function replayKey(url: string, number: number): string {
  return `replay-${new URL(url).port}-${number}`;
}

function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
