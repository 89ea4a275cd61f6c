import { setTimeout as pause } from "node:timers/promises";
import { patient } from "./patience.ts";

export interface UntilOptions {
  /** Fails after this long on a quiet machine, later on a slow one. Default 30 000 ms. */
  timeoutMs?: number;
  /** Time between two looks at the condition. Default 10 ms. */
  intervalMs?: number;
  /** What is awaited, for the failure message. Default: the condition's source text. */
  what?: string;
}

export interface Deferred<T> {
  readonly promise: Promise<T>;
  readonly settled: boolean;
  resolve(value: T): void;
  reject(error: unknown): void;
}

export interface Signal {
  readonly name: string;
  readonly fired: boolean;
  fire(): void;
  /** Resolves once fired; rejects with the signal's name after `timeoutMs` (default 30 000, of a quiet machine). */
  wait(timeoutMs?: number): Promise<void>;
}

const DEFAULT_TIMEOUT_MS = 30_000;

/**
 * Polls until the condition answers something truthy, and returns that. A condition that throws, or does not answer, counts
 * as "not yet"; its last error becomes the cause of the failure.
 */
export async function until<T>(condition: () => T | Promise<T>, options: UntilOptions = {}): Promise<T> {
  const { timeoutMs = DEFAULT_TIMEOUT_MS, intervalMs = 10, what = condition.toString() } = options;
  const began = performance.now();
  let last: { value?: T; error?: unknown } = {};
  for (;;) {
    try {
      const value = await within(Promise.resolve(condition()), what, timeoutMs);
      if (value) return value;
      last = { value };
    } catch (error) {
      last = { error };
    }
    // Asked again each time: the machine may have become slower meanwhile.
    if (performance.now() - began >= patient(timeoutMs)) {
      const seen =
        "error" in last ? `last error: ${String(last.error)}` : `last value: ${String(last.value)}`;
      throw new Error(`not true within ${Math.round(patient(timeoutMs))} ms: ${what} (${seen})`, {
        cause: last.error,
      });
    }
    await pause(intervalMs);
  }
}

/** The promise's result, or a failure that names `what` when it has not settled within `timeoutMs` of a quiet machine. */
export async function within<T>(
  promise: Promise<T>,
  what: string,
  timeoutMs = DEFAULT_TIMEOUT_MS,
): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const limitMs = Math.round(patient(timeoutMs));
    timer = setTimeout(() => reject(new Error(`not settled within ${limitMs} ms: ${what}`)), limitMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** A promise with its handles. Its rejection never becomes an unhandled one. */
export function deferred<T = void>(): Deferred<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  promise.catch(() => {});
  let settled = false;
  return {
    promise,
    get settled() {
      return settled;
    },
    resolve(value) {
      settled = true;
      resolve(value);
    },
    reject(error) {
      settled = true;
      reject(error);
    },
  };
}

/** A named event that tests fire and wait for. */
export function signal(name: string): Signal {
  const fired = deferred();
  return {
    name,
    get fired() {
      return fired.settled;
    },
    fire: () => fired.resolve(),
    wait: (timeoutMs) => within(fired.promise, `signal "${name}"`, timeoutMs),
  };
}

/** Anything with pg's `query`: a Client, a PoolClient. */
export interface Queryable {
  query(sql: string): Promise<{ rows: Array<Record<string, unknown>> }>;
}

/** The process id of the server backend behind a client. */
export async function backendPid(client: Queryable): Promise<number> {
  const { rows } = await client.query("select pg_backend_pid() as pid");
  return Number(rows[0]?.pid);
}

/** Waits until backend `pid` is blocked by other sessions' locks; returns the pids that block it. */
export async function untilBlocked(
  adminUrl: string,
  pid: number,
  options: UntilOptions = {},
): Promise<number[]> {
  const { default: pg } = await import("pg");
  const observer = new pg.Client({ connectionString: adminUrl });
  observer.on("error", () => {});
  await observer.connect();
  try {
    const blockers = async () => {
      const { rows } = await observer.query<{ pids: number[] }>("select pg_blocking_pids($1) as pids", [pid]);
      const pids = rows[0]?.pids ?? [];
      return pids.length > 0 ? pids : undefined;
    };
    return (await until(blockers, { what: `backend ${pid} is blocked`, ...options })) ?? [];
  } finally {
    await observer.end();
  }
}
