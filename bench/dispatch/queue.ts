/** The contract of what is measured: a queue on Postgres, with one worker process. */

/** The content of a job. */
export interface Job {
  /** When it was about to be added, in milliseconds of the machine's monotonic clock, which is the same in all processes. */
  readonly addedAtMs: number;
}

/** The content of a request and of its answer. */
export interface Asked {
  readonly name: string;
}

export interface Queue {
  /** Creates its tables. */
  prepare(): Promise<void>;
  /** Adds jobs, in as few transactions as it can. */
  add(jobs: readonly Job[]): Promise<void>;
  /** Starts to work in this process; calls `handle` when a job's handler starts. */
  work(handle: (job: Job) => void): Promise<void>;
  /** Starts to work on requests in this process, and on nothing else. */
  answer(): Promise<void>;
  /**
   * Requests deferred work in one transaction. Resolves when that has committed, which is when a service would answer 202,
   * with the id of the request.
   */
  request(): Promise<string>;
  /** Reads the answer that a repeated request, or one for the status, would get; false: it is not finished. */
  isAnswered(request: string): Promise<boolean>;
  close(): Promise<void>;
}

export function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
