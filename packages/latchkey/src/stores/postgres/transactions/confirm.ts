/**
 * A COMMIT whose wait for a synchronous standby was cancelled, or that a crash of the primary interrupted, is visible to
 * every session, and may be on no standby. A caller that was answered from such a record would lose that answer with the
 * primary. So the record is read again together with a WAL record without content: when that is replicated, so is everything
 * that was read before it. The two must be in one transaction, because the next connection may reach the next primary.
 */
import type { LatchkeyRecord } from "../../../engine/record.ts";
import { sameFence } from "../../../engine/record.ts";
import { StoreError } from "../../../errors.ts";
import type { SqlRow, SqlStatement } from "../../../sql/transaction.ts";
import type { Reading } from "../../life.ts";
import type { PostgresExecutor } from "../executor.ts";
import {
  booleanOf,
  foundRows,
  momentOf,
  onlyRow,
  primaryRows,
  recordOf,
  textOf,
} from "../statements/rows.ts";
import { timeoutText } from "../statements/values.ts";
import type { transactionStatements } from "./transaction-statements.ts";

/** The caller is waiting, and a standby that has not answered by then is unavailable. */
const limitMs = 5_000;

/** States from which a caller is answered that something has happened, or will. */
const answered: ReadonlySet<string> = new Set(["completed", "failed", "pending"]);

/** The result of a look-up, and whether it could be lost with the primary. */
export interface Look {
  readonly reading: Reading;
  readonly unconfirmed: boolean;
}

/** @throws {StoreError} when a standby answered */
export function lookOf(rows: readonly SqlRow[] | undefined): Look {
  const row = onlyRow(primaryRows(rows));
  const record = recordOf(row);
  const unconfirmed = record !== null && answered.has(record.state) && booleanOf(row, "standbys");
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
   * The result of the look-up, once it is certain that it cannot be lost.
   *
   * @throws {StoreError} when the standby did not confirm it in time
   */
  async read(look: SqlStatement): Promise<Reading> {
    const { reading, unconfirmed } = lookOf(await this.#executor.read(look));
    return unconfirmed ? this.readAgain(look) : reading;
  }

  /** As `read`, for a record that has been read before. */
  async readAgain(look: SqlStatement): Promise<Reading> {
    const rows = await this.#confirmed(look);
    if (rows !== null) return lookOf(rows).reading;
    throw new StoreError("rolled_back", { message: unconfirmed("The record") });
  }

  /**
   * The ids of writes that an earlier try has made, once the standby has them as well.
   *
   * @throws {StoreError} when the standby did not confirm them in time, so that they are in doubt
   */
  async idsOf(repeated: SqlStatement): Promise<readonly string[]> {
    return (await this.rowsOf(repeated, "in_doubt")).map(idOf);
  }

  /** As `idsOf`, for a write of which there can be only one: whether it has been made. */
  async isDone(repeated: SqlStatement): Promise<boolean> {
    return (await this.rowsOf(repeated, "in_doubt")).length > 0;
  }

  /**
   * The rows of a look-up with `standby` and `standbys` in each row, once it is certain that they cannot be lost.
   *
   * @throws {StoreError} when the standby did not confirm them in time, or when a standby answered
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

  /** The rows of the look-up, in one transaction with a write that has been replicated. Null if it was not in time. */
  async #confirmed(look: SqlStatement): Promise<readonly SqlRow[] | null> {
    const { waitSettings, barrier } = this.#statements;
    const rows = await this.#executor.runUntilConfirmed(
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

/** Whether a decision that is based on one of them also applies to the other. */
export function isSameVersion(left: LatchkeyRecord | null, right: LatchkeyRecord | null): boolean {
  if (left === null || right === null) return left === right;
  if (left.id !== right.id || left.state !== right.state || !sameFence(left.fence, right.fence)) return false;
  return !("answer" in left) || !("answer" in right) || isSameAnswer(left.answer, right.answer);
}

function isSameAnswer(left: Uint8Array | null, right: Uint8Array | null): boolean {
  return left === null || right === null ? left === right : Buffer.compare(left, right) === 0;
}
