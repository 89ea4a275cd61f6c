/** Look-ups that are sent as one statement. Each caller gets what the database held after the call began. */
import type { RecordKey } from "../../../engine/record.ts";
import { isLatchkeyError, StoreError } from "../../../errors.ts";
import { atEndOfTurn, type Clock } from "../../../ports.ts";
import { PipelineTimeout } from "../../../sql/pg/pipeline.ts";
import { sqlStateOf } from "../../../sql/sql-state.ts";
import type { SqlRow, SqlStatement } from "../../../sql/transaction.ts";
import type { PostgresExecutor } from "../executor.ts";
import type { StatementTemplate } from "../statements/template.ts";
import { type GatheredCall, Gathering, gatheredCall, patienceMs } from "./gathering.ts";

/** Statements, each on a connection of its own. With fewer, look-ups wait for the network; with more, other code waits for a connection. */
const sentMax = 4;

/** Far longer than a statement takes on a database that answers, and short enough for a second try within the default limit of 15 s. */
export const hangsAfterMs = 3_000;

/**
 * Errors that each look-up would meet again: a privilege or an object is missing (42), resources (53), and the server's limit
 * for a lock (55P03), for which it would wait as long again. A damaged row can look like a lack of memory (53200).
 */
const metAgain = /^(?:42|53[134]|55P03)/;

interface WaitingRead extends GatheredCall<readonly SqlRow[]> {
  readonly key: RecordKey;
  readonly single: SqlStatement;
}

export interface GatheredReadParts {
  readonly executor: Pick<PostgresExecutor, "read" | "hasSpare">;
  readonly readMany: StatementTemplate;
  readonly clock: Pick<Clock, "startTimer">;
}

export class GatheredReads {
  readonly #parts: GatheredReadParts;
  readonly #gathering: Gathering<readonly SqlRow[], WaitingRead>;
  #isAskingAgain = false;

  constructor(parts: GatheredReadParts) {
    this.#parts = parts;
    const { clock } = parts;
    const send = (batch: readonly WaitingRead[]) => this.#send(batch);
    this.#gathering = new Gathering({
      clock,
      sentMax,
      counted: "statements",
      patienceMs,
      together: atEndOfTurn,
      send,
    });
  }

  /**
   * The row of `read` for this key.
   *
   * @param single the look-up as a statement of its own
   * @throws {StoreError} as `PostgresExecutor.read`; callers whose look-ups have failed together get the same error
   */
  read(key: RecordKey, single: SqlStatement): Promise<readonly SqlRow[]> {
    return this.#gathering.add({ ...gatheredCall("LatchkeyRead"), key, single });
  }

  /** Settles the look-ups of the batch. Never rejects. */
  async #send(batch: readonly WaitingRead[]): Promise<void> {
    const [first] = batch;
    if (batch.length === 1 && first !== undefined) return this.#readSingly(first);
    try {
      this.#answer(batch, await this.#readMany(batch));
    } catch (error) {
      if (mayReadSingly(error)) await Promise.all(batch.map((read) => this.#readSingly(read)));
      else for (const { result } of batch) result.reject(error);
    }
  }

  /**
   * Also asks another connection if the first one hangs; otherwise all of these callers would wait for its time limit. One batch
   * at a time, because a database that is slow for all would have twice the statements.
   */
  #readMany(batch: readonly WaitingRead[]): Promise<readonly SqlRow[]> {
    const { executor, readMany, clock } = this.#parts;
    const statement = readMany.bind({ keys: keysOf(batch) });
    const { promise, resolve, reject } = Promise.withResolvers<readonly SqlRow[]>();
    const askAgain = () => {
      if (this.#isAskingAgain || !executor.hasSpare) return;
      this.#isAskingAgain = true;
      const end = () => {
        this.#isAskingAgain = false;
      };
      void executor
        .read(statement)
        .then(resolve, () => {})
        .finally(end);
    };
    const cancel = clock.startTimer(hangsAfterMs, askAgain, "background");
    executor.read(statement).then(resolve, reject);
    return promise.finally(cancel);
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
    const { executor } = this.#parts;
    try {
      result.resolve(await caller.runInAsyncScope(executor.read, executor, single));
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
 * taken longer than the server's `statement_timeout`, or the connections were lost. No caller waits a second time for a lock or
 * for a missing reply, and nothing is sent if no connection is available.
 */
function mayReadSingly(error: unknown): boolean {
  if (!(error instanceof StoreError)) return !isLatchkeyError(error);
  const { certainty, cause } = error;
  if (certainty === "not_sent" || cause instanceof PipelineTimeout) return false;
  return !metAgain.test(sqlStateOf(cause) ?? "");
}
