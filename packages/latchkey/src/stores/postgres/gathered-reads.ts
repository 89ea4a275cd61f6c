/**
 * Look-ups that are sent as one statement. A look-up is sent at once while fewer than `runningMax` statements are under way. Those that
 * come in the meantime are sent as one statement when one of them returns. No look-up joins a statement that has been sent, so
 * that each caller gets what the database held after the call began.
 */
import { AsyncResource } from "node:async_hooks";
import type { RecordKey } from "../../engine/record.ts";
import { StoreError } from "../../errors.ts";
import type { Clock } from "../../ports.ts";
import { PipelineTimeout } from "../../sql/pg/pipeline.ts";
import { sqlStateOf } from "../../sql/sql-state.ts";
import type { SqlRow, SqlStatement } from "../../sql/transaction.ts";
import type { PostgresExecutor } from "./executor.ts";
import type { StatementTemplate } from "./template.ts";

/**
 * With fewer, look-ups wait for each other even where only a few are made at once; with more, batches are smaller.
 * docs/performance.md compares 1, 2, 4 and 8.
 */
const runningMax = 4;

/** Bounds what one reply holds, together with the size up to which `read-many.sql` returns records. */
const keysMax = 100;

/** A statement that takes longer, for example on a dead connection, no longer keeps others waiting. */
const patienceMs = 20;

/** The server's limit for a lock: a second try would wait for it as long again. */
const lockTimeout = "55P03";

interface WaitingRead {
  readonly key: RecordKey;
  readonly single: SqlStatement;
  /** Carries its caller's asynchronous context. Otherwise it would be sent in that of a caller who has been answered. */
  readonly caller: AsyncResource;
  readonly result: PromiseWithResolvers<readonly SqlRow[]>;
}

export interface GatheredReadParts {
  readonly executor: Pick<PostgresExecutor, "read">;
  readonly readMany: StatementTemplate;
  readonly clock: Pick<Clock, "startTimer">;
}

export class GatheredReads {
  readonly #parts: GatheredReadParts;
  #waiting: WaitingRead[] = [];
  #running = 0;

  constructor(parts: GatheredReadParts) {
    this.#parts = parts;
  }

  /**
   * The row of `read` for this key.
   *
   * @param single the look-up as a statement of its own
   * @throws {StoreError} as `PostgresExecutor.read`; callers whose look-ups have failed together get the same error
   */
  read(key: RecordKey, single: SqlStatement): Promise<readonly SqlRow[]> {
    const result = Promise.withResolvers<readonly SqlRow[]>();
    this.#waiting.push({ key, single, caller: new AsyncResource("LatchkeyRead"), result });
    this.#sendWaiting();
    return result.promise;
  }

  #sendWaiting(): void {
    while (this.#running < runningMax && this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, keysMax);
      void batch[0]?.caller.runInAsyncScope(() => this.#run(batch));
    }
  }

  async #run(batch: readonly WaitingRead[]): Promise<void> {
    this.#running += 1;
    let isCounted = true;
    const next = () => {
      if (!isCounted) return;
      isCounted = false;
      this.#running -= 1;
      this.#sendWaiting();
    };
    try {
      // The statement has a time limit of its own, which keeps the process alive.
      const cancel = this.#parts.clock.startTimer(patienceMs, next, "background");
      await this.#send(batch);
      cancel();
    } catch (error) {
      // The clock is the application's, and may throw.
      for (const { result } of batch) result.reject(error);
    } finally {
      next();
    }
  }

  /** Settles the look-ups of the batch. Never rejects. */
  async #send(batch: readonly WaitingRead[]): Promise<void> {
    const [first] = batch;
    if (batch.length === 1 && first !== undefined) return this.#readSingly(first);
    const { executor, readMany } = this.#parts;
    try {
      this.#answer(batch, await executor.read(readMany.bind({ keys: keysOf(batch) })));
    } catch (error) {
      if (mayReadSingly(error)) await Promise.all(batch.map((read) => this.#readSingly(read)));
      else for (const { result } of batch) result.reject(error);
    }
  }

  /** A row that is missing, or not certainly of this key, is read again by itself. */
  #answer(batch: readonly WaitingRead[], rows: readonly SqlRow[]): void {
    for (const [place, read] of batch.entries()) {
      const row = rows[place];
      if (row !== undefined && isOf(row, place, read.key) && row.large === false) read.result.resolve([row]);
      else void this.#readSingly(read);
    }
  }

  async #readSingly({ single, caller, result }: WaitingRead): Promise<void> {
    try {
      result.resolve(await caller.runInAsyncScope(() => this.#parts.executor.read(single)));
    } catch (error) {
      result.reject(error);
    }
  }
}

function keysOf(batch: readonly WaitingRead[]): string {
  return JSON.stringify(
    batch.map(({ key: { tenant, scope, key } }, place) => ({ place, tenant, scope, key })),
  );
}

function isOf(row: SqlRow, place: number, { tenant, scope, key }: RecordKey): boolean {
  return row.place === place && row.tenant === tenant && row.scope === scope && row.key === key;
}

/**
 * Whether the look-ups of a batch that has failed may succeed by themselves: one row may be damaged, all rows together may have
 * taken longer than the server's `statement_timeout`, or the connections were lost. Nobody waits a second time for a
 * lock or for a reply that did not come, and nothing is sent where no connection can be had.
 */
function mayReadSingly(error: unknown): boolean {
  if (!(error instanceof StoreError)) return true;
  const { certainty, cause } = error;
  if (certainty === "not_sent" || cause instanceof PipelineTimeout) return false;
  return sqlStateOf(cause) !== lockTimeout;
}
