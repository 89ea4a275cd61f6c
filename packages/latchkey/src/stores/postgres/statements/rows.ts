/** Turns rows, as the statements select them, into records. */
import type {
  Fence,
  Fingerprint,
  InProgressRecord,
  LatchkeyRecord,
  RecordKey,
  RecordState,
} from "../../../engine/record.ts";
import { StoreError } from "../../../errors.ts";
import type { SqlRow } from "../../../sql/transaction.ts";
import type { NewLife, Reading } from "../../life.ts";
import { momentOfHex, RecordBytes } from "./record-bytes.ts";

export function numberOf(row: SqlRow, column: string): number {
  const value = row[column];
  if (typeof value !== "number") throw unexpected(column, value);
  return value;
}

const exactTime = /^[0-9a-f]{16}$/;

/** A point in time, in milliseconds since the Unix epoch, rounded down. */
export function momentOf(row: SqlRow, column: string): number {
  const hex = textOf(row, column);
  if (!exactTime.test(hex)) throw unexpected(column, hex);
  return momentOfHex(hex);
}

export function nullableMoment(row: SqlRow, column: string): number | null {
  return row[column] === null ? null : momentOf(row, column);
}

export function textOf(row: SqlRow, column: string): string {
  const value = row[column];
  if (typeof value !== "string") throw unexpected(column, value);
  return value;
}

export function nullableText(row: SqlRow, column: string): string | null {
  return row[column] === null ? null : textOf(row, column);
}

export function booleanOf(row: SqlRow, column: string): boolean {
  const value = row[column];
  if (typeof value !== "boolean") throw unexpected(column, value);
  return value;
}

/** Bytes that the statement has encoded as hexadecimal digits. */
export function bytesOf(hex: string): Uint8Array {
  return new Uint8Array(Buffer.from(hex, "hex"));
}

/** A row or a value that the statements cannot produce: a defect, or a column that was altered. */
function unexpected(column: string, value: unknown): TypeError {
  return new TypeError(`Column ${column} was returned as ${typeof value}`);
}

/** The first row of a statement that must return one. */
export function onlyRow(rows: readonly SqlRow[] | undefined): SqlRow {
  const row = rows?.[0];
  if (row === undefined) throw new TypeError("A statement that must return a row returned none");
  return row;
}

/**
 * The rows of a statement that returns whether a standby ran it.
 *
 * @throws {StoreError} when a standby answered, because its data may be old
 */
export function primaryRows(rows: readonly SqlRow[] | undefined): readonly SqlRow[] {
  if (!booleanOf(onlyRow(rows), "standby")) return rows ?? [];
  throw new StoreError("rolled_back", { message: "The database is a standby; decisions need the primary" });
}

/**
 * The rows of a look-up that decides something, so that a standby must not answer it. It has a column `standby`, and always a
 * row: if nothing was found, every other column of that row is null, including `column`, which is otherwise never null.
 */
export function foundRows(rows: readonly SqlRow[], column: string): readonly SqlRow[] {
  return primaryRows(rows).filter((row) => row[column] !== null);
}

/** Null if the look-up found nothing. */
export function recordOf(row: SqlRow): LatchkeyRecord | null {
  if (row.record === null) return null;
  const bytes = new RecordBytes(textOf(row, "record"));
  const life = lifeOf(bytes);
  const state = bytes.text("state") as RecordState;
  const lastErrorCode = bytes.nullableText("last_error_code");
  switch (state) {
    case "pending":
      return { ...life, state, expiresAt: bytes.moment("expires_at") };
    case "in_progress":
      return inProgressOf(row);
    case "completed":
    case "failed":
      return {
        ...life,
        state,
        finishedAt: bytes.moment("finished_at"),
        expiresAt: bytes.moment("expires_at"),
        forgetAt: bytes.moment("forget_at"),
        answer: bytes.nullableBytes("answer"),
        lastErrorCode,
      };
    case "retryable":
      return { ...life, state, lastErrorCode };
    case "unknown":
      return { ...life, state, lastErrorCode, reconcileAfter: bytes.nullableMoment("reconcile_after") };
    case "expired":
      return {
        ...life,
        state,
        finishedAt: bytes.moment("finished_at"),
        forgetAt: bytes.moment("forget_at"),
      };
    default:
      throw new TypeError(`A record is in the unknown state ${state satisfies never}`);
  }
}

/** A record that the statement has looked for in these states. */
export function storedRecord<S extends RecordState>(
  row: SqlRow,
  ...states: readonly S[]
): Extract<LatchkeyRecord, { readonly state: S }> {
  const record = recordOf(row);
  if (record !== null && isIn(record, states)) return record;
  throw unexpected("record", row.record);
}

/** @throws {StoreError} when the record is another key's, whatever brought it here: nothing of it may be shown. */
export function readingOf({ tenant, scope, key }: RecordKey, reading: Reading): Reading {
  const { record } = reading;
  if (record === null || (record.tenant === tenant && record.scope === scope && record.key === key))
    return reading;
  throw new StoreError("rolled_back", { message: "The database returned the record of another key" });
}

function isIn<S extends RecordState>(
  record: LatchkeyRecord,
  states: readonly S[],
): record is Extract<LatchkeyRecord, { readonly state: S }> {
  return states.some((state) => state === record.state);
}

export function inProgressOf(row: SqlRow): InProgressRecord {
  const bytes = new RecordBytes(textOf(row, "record"));
  return {
    ...lifeOf(bytes),
    state: "in_progress",
    // Without a lease row there is no lease that could still run.
    leaseEndsAt: (row.lease_ends_at ?? null) === null ? 0 : momentOf(row, "lease_ends_at"),
    expiresAt: bytes.moment("expires_at"),
  };
}

function lifeOf(bytes: RecordBytes) {
  const fence: Fence = { attempt: bytes.integer("attempt"), token: bytes.hex("token") };
  const fingerprint: Fingerprint = {
    version: bytes.integer("fingerprint_version"),
    digest: bytes.bytes("fingerprint"),
  };
  const trace = bytes.nullableText("trace");
  const life = {
    tenant: bytes.text("tenant"),
    scope: bytes.text("scope"),
    key: bytes.text("key"),
    id: bytes.hex("id").replace(uuidParts, "$1-$2-$3-$4-"),
    operation: bytes.text("operation"),
    fingerprint,
    principal: bytes.nullableText("principal"),
    fence,
    createdAt: bytes.moment("created_at"),
  };
  return trace === null ? life : { ...life, trace };
}

const uuidParts = /^(.{8})(.{4})(.{4})(.{4})/;

/** A life that was just written, and when. */
export function begunLife(life: NewLife, row: SqlRow) {
  const { tenant, scope, key, id, operation, fingerprint, principal, fence, trace } = life;
  const createdAt = momentOf(row, "created_at");
  const begun = { tenant, scope, key, id, operation, fingerprint, principal, fence, createdAt };
  return trace === undefined ? begun : { ...begun, trace };
}

/** A resumed life has the trace with which it began. */
export function tracedAs({ trace: _, ...life }: NewLife, row: SqlRow): NewLife {
  const trace = nullableText(row, "trace");
  return trace === null ? life : { ...life, trace };
}
