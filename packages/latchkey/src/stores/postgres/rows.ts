/** Rows as the statements select them, made into records. */
import type {
  Fence,
  Fingerprint,
  InProgressRecord,
  LatchkeyRecord,
  RecordState,
} from "../../engine/record.ts";
import type { SqlRow } from "../../transactions/transaction.ts";
import type { NewLife } from "../store.ts";

export function numberOf(row: SqlRow, column: string): number {
  const value = row[column];
  if (typeof value !== "number") throw unexpected(column, value);
  return value;
}

function nullableNumber(row: SqlRow, column: string): number | null {
  return row[column] === null ? null : numberOf(row, column);
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

function bytesOf(hex: string): Uint8Array {
  return new Uint8Array(Buffer.from(hex, "hex"));
}

/** A row or a value that the statements cannot produce: a defect, or a column changed by somebody else. */
function unexpected(column: string, value: unknown): TypeError {
  return new TypeError(`Column ${column} came back as ${typeof value}`);
}

/** The first row of a statement that always has one. */
export function onlyRow(rows: readonly SqlRow[] | undefined): SqlRow {
  const row = rows?.[0];
  if (row === undefined) throw new TypeError("A statement that always has a row came back without one");
  return row;
}

/** Null when the row is that of a look-up which found nothing. */
export function recordOf(row: SqlRow): LatchkeyRecord | null {
  if (row.state === null) return null;
  const life = lifeOf(row);
  const state = textOf(row, "state") as RecordState;
  const lastErrorCode = nullableText(row, "last_error_code");
  switch (state) {
    case "pending":
      return { ...life, state, expiresAt: numberOf(row, "expires_at") };
    case "in_progress":
      return inProgressOf(row);
    case "completed":
    case "failed": {
      const answer = nullableText(row, "answer");
      return {
        ...life,
        state,
        finishedAt: numberOf(row, "finished_at"),
        expiresAt: numberOf(row, "expires_at"),
        forgetAt: numberOf(row, "forget_at"),
        answer: answer === null ? null : bytesOf(answer),
        lastErrorCode,
      };
    }
    case "retryable":
      return { ...life, state, lastErrorCode };
    case "unknown":
      return { ...life, state, lastErrorCode, reconcileAfter: nullableNumber(row, "reconcile_after") };
    case "expired":
      return {
        ...life,
        state,
        finishedAt: numberOf(row, "finished_at"),
        forgetAt: numberOf(row, "forget_at"),
      };
    default:
      throw new TypeError(`A record is in the unknown state ${state satisfies never}`);
  }
}

export function inProgressOf(row: SqlRow): InProgressRecord {
  return {
    ...lifeOf(row),
    state: "in_progress",
    // A lease row that is gone cannot be running any more.
    leaseEndsAt: nullableNumber(row, "lease_ends_at") ?? 0,
    expiresAt: numberOf(row, "expires_at"),
  };
}

function lifeOf(row: SqlRow) {
  const fence: Fence = { attempt: numberOf(row, "attempt"), token: textOf(row, "token") };
  const fingerprint: Fingerprint = {
    version: numberOf(row, "fingerprint_version"),
    digest: bytesOf(textOf(row, "fingerprint")),
  };
  return {
    tenant: textOf(row, "tenant"),
    scope: textOf(row, "scope"),
    key: textOf(row, "key"),
    id: textOf(row, "id"),
    operation: textOf(row, "operation"),
    fingerprint,
    principal: nullableText(row, "principal"),
    fence,
    createdAt: numberOf(row, "created_at"),
  };
}

/** A life that was just written, and when. */
export function begunLife(life: NewLife, row: SqlRow) {
  const { tenant, scope, key, id, operation, fingerprint, principal, fence } = life;
  const createdAt = numberOf(row, "created_at");
  return { tenant, scope, key, id, operation, fingerprint, principal, fence, createdAt };
}
