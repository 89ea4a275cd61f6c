/** What is measured: a queue on Postgres, with one worker process. */

/** What a job carries. */
export interface Job {
  /** When it was about to be added, in milliseconds of the machine's monotonic clock; it is the same in all processes. */
  readonly addedAtMs: number;
}

/** What a request carries, and what it is answered with. */
export interface Asked {
  readonly name: string;
}

export interface Queue {
  /** Makes its tables. */
  prepare(): Promise<void>;
  /** Adds jobs, in as few transactions as it can. */
  add(jobs: readonly Job[]): Promise<void>;
  /** Begins to work in this process; `handle` is called when a job's handler starts. */
  work(handle: (job: Job) => void): Promise<void>;
  /** Begins to work on requests in this process, and on nothing else. */
  answer(): Promise<void>;
  /**
   * Asks for work that is done later, in one transaction; the answer is there when that has committed, which is when a
   * service says 202. It names the request.
   */
  request(): Promise<string>;
  /** Reads what a repeated request, or one for the status, would be answered with; false: it is not finished. */
  isAnswered(request: string): Promise<boolean>;
  close(): Promise<void>;
}

export function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
