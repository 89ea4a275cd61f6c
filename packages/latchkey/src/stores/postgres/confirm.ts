/**
 * A COMMIT whose wait for a synchronous standby was cancelled, or that a crash of the primary interrupted, is there for
 * every session, and may be on no standby. A caller that was answered from such a record would lose that answer with the primary. So it
 * is read again together with a write of nothing: when that is replicated, so is everything that was read before it. The
 * two must be one transaction: the next connection may reach the next primary.
 */
import type { LatchkeyRecord } from "../../engine/record.ts";
import { sameFence } from "../../engine/record.ts";
import { StoreError } from "../../errors.ts";
import type { SqlRow, SqlStatement } from "../../sql/transaction.ts";
import type { Reading } from "../life.ts";
import type { PostgresExecutor } from "./executor.ts";
import { booleanOf, foundRows, momentOf, onlyRow, primaryRows, recordOf, textOf } from "./rows.ts";
import type { transactionStatements } from "./transaction-statements.ts";
import { timeoutText } from "./values.ts";

/** The caller waits, and a standby that has not answered by then is away. */
const limitMs = 5_000;

/** States that a caller is answered from: something has happened, or will. */
const told: ReadonlySet<string> = new Set(["completed", "failed", "pending"]);

/** What a look-up has found, and whether it could be lost with the primary. */
export interface Look {
  readonly reading: Reading;
  readonly unconfirmed: boolean;
}

/** @throws {StoreError} when a standby answered */
export function lookOf(rows: readonly SqlRow[] | undefined): Look {
  const row = onlyRow(primaryRows(rows));
  const record = recordOf(row);
  const unconfirmed = record !== null && told.has(record.state) && booleanOf(row, "standbys");
  return { reading: { record, now: momentOf(row, "now") }, unconfirmed };
}

export class Confirmation {
  readonly #executor: PostgresExecutor;
  readonly #statements: Pick<ReturnType<typeof transactionStatements>, "waitSettings" | "barrier">;

  constructor(
    executor: PostgresExecutor,
    statements: Pick<ReturnType<typeof transactionStatements>, "waitSettings" | "barrier">,
  ) {
    this.#executor = executor;
    this.#statements = statements;
  }

  /**
   * What the look-up finds, once it is known to stay.
   *
   * @throws {StoreError} when the standby did not have it in time
   */
  async read(look: SqlStatement): Promise<Reading> {
    const { reading, unconfirmed } = lookOf(await this.#executor.read(look));
    return unconfirmed ? this.readAgain(look) : reading;
  }

  /** As `read`, of something that has been seen. */
  async readAgain(look: SqlStatement): Promise<Reading> {
    const rows = await this.#confirmed(look);
    if (rows !== null) return lookOf(rows).reading;
    throw new StoreError("rolled_back", { message: unconfirmed("The record") });
  }

  /**
   * The ids of writes that an earlier try has done, once the standby has them, too.
   *
   * @throws {StoreError} when the standby did not have them in time: they are in doubt
   */
  async idsOf(repeated: SqlStatement): Promise<readonly string[]> {
    return (await this.rowsOf(repeated, "in_doubt")).map(idOf);
  }

  /** As `idsOf`, of a write that there can be but one of: whether it has been done. */
  async isDone(repeated: SqlStatement): Promise<boolean> {
    return (await this.rowsOf(repeated, "in_doubt")).length > 0;
  }

  /**
   * What a look-up with `standby` and `standbys` in each row finds, once it is known to stay.
   *
   * @throws {StoreError} when the standby did not have it in time, or answered
   */
  async rowsOf(
    look: SqlStatement,
    certainty: StoreError["certainty"] = "rolled_back",
  ): Promise<readonly SqlRow[]> {
    const seen = foundRows(await this.#executor.read(look), "standbys");
    if (!seen.some((row) => booleanOf(row, "standbys"))) return seen;
    const rows = await this.#confirmed(look);
    if (rows !== null) return foundRows(rows, "standbys");
    throw new StoreError(certainty, { message: unconfirmed("What was written") });
  }

  /** What the look-up finds, in one transaction with a write that has been replicated. Null: not in time. */
  async #confirmed(look: SqlStatement): Promise<readonly SqlRow[] | null> {
    const { waitSettings, barrier } = this.#statements;
    const rows = await this.#executor.settle(
      (leftMs) => [waitSettings.bind({ limit_ms: timeoutText(leftMs) }), look, barrier.bind({})],
      limitMs,
    );
    return rows === null ? null : (rows[1] ?? []);
  }
}

function unconfirmed(what: string): string {
  return `${what} was read, and its standby has not confirmed it within ${limitMs} ms`;
}

function idOf(row: SqlRow): string {
  return textOf(row, "id");
}

/** Whether what was decided on the one is true of the other. */
export function isSameVersion(left: LatchkeyRecord | null, right: LatchkeyRecord | null): boolean {
  if (left === null || right === null) return left === right;
  if (left.id !== right.id || left.state !== right.state || !sameFence(left.fence, right.fence)) return false;
  return !("answer" in left) || !("answer" in right) || isSameAnswer(left.answer, right.answer);
}

function isSameAnswer(left: Uint8Array | null, right: Uint8Array | null): boolean {
  return left === null || right === null ? left === right : Buffer.compare(left, right) === 0;
}
