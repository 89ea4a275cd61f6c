/** The writes on a running attempt, each one step on the rows. Null or false if the guard did not hold. */
import { sameFingerprint } from "../../engine/decide.ts";
import type { Fingerprint, Guard, InProgressRecord, RecordKey } from "../../engine/record.ts";
import type { Owner } from "../journal.ts";
import type { AttemptEnd, LeaseTerms } from "../store.ts";
import { ownedRow } from "./journal.ts";
import { finished, leaseOf, lifeOf, move, pointInTime } from "./life.ts";
import { guardHolds, type MemoryRows } from "./rows.ts";

export function takeOver(
  rows: MemoryRows,
  now: number,
  { key, guard, fingerprint }: { key: RecordKey; guard: Guard; fingerprint: Fingerprint },
  token: string,
  terms: LeaseTerms,
): InProgressRecord | null {
  const record = rows.find(key)?.record;
  if (record === undefined || !guardHolds(record, guard)) return null;
  if (!sameFingerprint(record.fingerprint, fingerprint)) return null;
  const state = move(record.state, "take_over", "in_progress");
  if (record.state === "in_progress" && now < record.leaseEndsAt) return null;
  const life = { ...lifeOf(record, record.createdAt), fence: { attempt: record.fence.attempt + 1, token } };
  return rows.put({ ...life, state, ...leaseOf(terms, record.createdAt, now) }, { terms });
}

export function renew(rows: MemoryRows, now: number, owner: Owner, leaseMs: number): boolean {
  const row = ownedRow(rows, owner);
  if (row === null || now >= row.record.leaseEndsAt) return false;
  rows.put({ ...row.record, leaseEndsAt: now + leaseMs }, { terms: row.terms });
  return true;
}

export function endAttempt(
  rows: MemoryRows,
  now: number,
  owner: Owner,
  end: AttemptEnd,
): { readonly expiresAt: number | null } | null {
  const record = ownedRow(rows, owner)?.record;
  if (record === undefined) return null;
  const life = lifeOf(record, record.createdAt);
  switch (end.event) {
    case "complete":
    case "fail": {
      const state =
        end.event === "complete"
          ? move(record.state, "complete", "completed")
          : move(record.state, "fail", "failed");
      return { expiresAt: rows.put(finished(life, state, end, now)).expiresAt };
    }
    case "release":
      move(record.state, "release", "none");
      rows.remove(owner.key);
      return { expiresAt: null };
    case "retry_later": {
      const state = move(record.state, "retry_later", "retryable");
      const resumeAfter = pointInTime(now, end.resumeAfterMs);
      rows.put({ ...life, state, lastErrorCode: end.errorCode }, { resumeAfter });
      return { expiresAt: null };
    }
    case "doubt": {
      const state = move(record.state, "doubt", "unknown");
      const reconcileAfter = pointInTime(now, end.reconcileAfterMs);
      rows.put({ ...life, state, lastErrorCode: end.errorCode, reconcileAfter });
      return { expiresAt: null };
    }
    default:
      return end satisfies never;
  }
}

export function giveUp(
  rows: MemoryRows,
  now: number,
  { key, guard }: { key: RecordKey; guard: Guard },
  lastErrorCode: string,
  reconcileAfterMs: number | null,
): boolean {
  const record = rows.find(key)?.record;
  if (record === undefined || !guardHolds(record, guard)) return false;
  const state = move(record.state, "give_up", "unknown");
  if (record.state === "in_progress" && now < record.leaseEndsAt) return false;
  const reconcileAfter = pointInTime(now, reconcileAfterMs);
  rows.put({ ...lifeOf(record, record.createdAt), state, lastErrorCode, reconcileAfter });
  return true;
}
