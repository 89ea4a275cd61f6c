/** What is measured: a queue on Postgres, with one worker process. */

/** What a job carries. */
export interface Job {
  /** When it was about to be added, in milliseconds of the machine's monotonic clock; it is the same in all processes. */
  readonly addedAtMs: number;
}

export interface Queue {
  /** Makes its tables. */
  prepare(): Promise<void>;
  /** Adds jobs, in as few transactions as it can. */
  add(jobs: readonly Job[]): Promise<void>;
  /** Begins to work in this process; `handle` is called when a job's handler starts. */
  work(handle: (job: Job) => void): Promise<void>;
  close(): Promise<void>;
}

export function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
