/**
 * Writes of one kind that are sent as one statement. Each of them has its own guard, and the rows say whose guards held. If one
 * row may have made the statement fail, and certainly nothing was written, each write is sent by itself; after any other failure,
 * all callers get its error.
 */
import { StoreError } from "../../../errors.ts";
import type { Clock } from "../../../ports.ts";
import { isSerializationFailure, sqlStateOf } from "../../../sql/sql-state.ts";
import type { SqlRow, SqlStatement, SqlValue } from "../../../sql/transaction.ts";
import { isCausedByRow } from "../statements/refusing-rows.ts";
import type { StatementTemplate } from "../statements/template.ts";
import { type GatheredCall, Gathering, gatheredCall, inOneBurst } from "./gathering.ts";

/** Larger ones gain nothing, and a batch of them could reach the server's `statement_timeout`. */
const largeBytes = 16_384;

/** What `single` takes. `many` takes rows of them as JSON, with bytes in base64. */
export type WriteValues = Readonly<Record<string, SqlValue>> & { readonly id: string };

interface WaitingWrite extends GatheredCall<SqlRow | null> {
  readonly values: WriteValues;
}

export interface GatheredWriteParts {
  readonly clock: Pick<Clock, "startTimer">;
  readonly sentMax: number;
  readonly patienceMs: number | null;
  single(values: WriteValues): SqlStatement;
  /** Its rows have the `place` of their write, counted from 0, and its `id`. */
  readonly many: StatementTemplate;
  /** Runs a statement that commits by itself. */
  write(statement: SqlStatement): Promise<readonly SqlRow[]>;
}

export class GatheredWrites {
  readonly #parts: GatheredWriteParts;
  readonly #gathering: Gathering<SqlRow | null, WaitingWrite>;

  constructor(parts: GatheredWriteParts) {
    this.#parts = parts;
    const send = (batch: readonly WaitingWrite[]) => this.#send(batch);
    this.#gathering = new Gathering({ ...parts, counted: "calls", together: inOneBurst, send });
  }

  /**
   * The row that the write returned; null if its guard did not hold.
   *
   * @throws {StoreError} as `PostgresExecutor.write`; callers whose writes have failed together get the same error
   */
  write(values: WriteValues): Promise<SqlRow | null> {
    if (!fitsIn(values)) return this.#single(values);
    return this.#gathering.add({ ...gatheredCall("LatchkeyWrite"), values });
  }

  async #single(values: WriteValues): Promise<SqlRow | null> {
    const { write, single } = this.#parts;
    return (await write(single(values)))[0] ?? null;
  }

  /** Settles the writes of the batch. Never rejects. */
  async #send(batch: readonly WaitingWrite[]): Promise<void> {
    const [first] = batch;
    if (batch.length === 1 && first !== undefined) return this.#writeSingly(first);
    const { write, many } = this.#parts;
    try {
      answer(batch, await write(many.bind({ rows: rowsOf(batch) })));
    } catch (error) {
      if (mayWriteSingly(error)) await Promise.all(batch.map((one) => this.#writeSingly(one)));
      else for (const { result } of batch) result.reject(error);
    }
  }

  async #writeSingly({ values, caller, result }: WaitingWrite): Promise<void> {
    try {
      result.resolve(await caller.runInAsyncScope(() => this.#single(values)));
    } catch (error) {
      result.reject(error);
    }
  }
}

/** @throws {StoreError} `in_doubt` when a row is not certainly of one of these writes */
function answer(batch: readonly WaitingWrite[], rows: readonly SqlRow[]): void {
  const found = new Map<WaitingWrite, SqlRow>();
  for (const row of rows) {
    const write = typeof row.place === "number" ? batch[row.place] : undefined;
    if (write === undefined || row.id !== write.values.id || found.has(write)) throw mixedUp();
    found.set(write, row);
  }
  for (const write of batch) write.result.resolve(found.get(write) ?? null);
}

function mixedUp(): StoreError {
  return new StoreError("in_doubt", { message: "The database returned the row of another write" });
}

function rowsOf(batch: readonly WaitingWrite[]): string {
  return JSON.stringify(batch.map(({ values }, place) => rowOf(values, place)));
}

function rowOf(values: WriteValues, place: number): Readonly<Record<string, SqlValue>> {
  const row: Record<string, SqlValue> = { place };
  for (const [name, value] of Object.entries(values)) {
    row[name] = value instanceof Uint8Array ? base64Of(value) : value;
  }
  return row;
}

function base64Of({ buffer, byteOffset, byteLength }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString("base64");
}

/** Whether the values are small, and JSON has all of them. */
function fitsIn(values: WriteValues): boolean {
  let bytes = 0;
  for (const value of Object.values(values)) {
    if (value instanceof Uint8Array) bytes += value.byteLength;
    else if (typeof value === "number" && !Number.isFinite(value)) return false;
  }
  return bytes <= largeBytes;
}

/** The statement's own limit for a lock, and the server's `statement_timeout`: one row may have kept the others waiting. */
const delayedByRow: readonly string[] = ["55P03", "57014"];

/**
 * Whether the statement certainly changed nothing, and its writes may succeed by themselves: also after conflicts, which are rarer
 * for one row, and without a SQLSTATE, when the pool gave out connections in the middle of a transaction. What the server refuses
 * because of its own state, it would refuse for each of them.
 */
function mayWriteSingly(error: unknown): boolean {
  if (!(error instanceof StoreError) || error.certainty !== "rolled_back") return false;
  const state = sqlStateOf(error);
  if (state === null || delayedByRow.includes(state)) return true;
  return isCausedByRow(error) || isSerializationFailure(error);
}
