/** The writes that begin a life, or its first attempt, each one step on the rows. Null if the guard did not hold. */
import { sameFingerprint } from "../../engine/decide.ts";
import type {
  FinishedRecord,
  Guard,
  InProgressRecord,
  LatchkeyRecord,
  PendingRecord,
  UnknownRecord,
} from "../../engine/record.ts";
import type { NewLife } from "../life.ts";
import type { LeaseTerms, PendingWant, Retention } from "../store.ts";
import { finished, type Life, leaseOf, lifeOf, move, type StateOrNone } from "./life.ts";
import { guardHolds, type MemoryRows, type RowChange } from "./rows.ts";

/** A life to begin, and the record that this was decided on. */
export interface Beginning {
  readonly life: NewLife;
  readonly replaces: Guard | null;
}

/**
 * The state in which the life finds its key, and the life to write: a resumed one keeps its time of creation and its trace.
 * Null if the guard does not hold. A finished record whose retention is over counts as `none`; any other finished record
 * keeps its state, from which no edge leads on.
 */
function begunFrom(
  rows: MemoryRows,
  now: number,
  { life, replaces }: Beginning,
): { readonly from: StateOrNone; readonly life: Life } | null {
  const row = rows.find(life);
  const begun = lifeOf(life, now);
  if (row === null) return replaces === null ? { from: "none", life: begun } : null;
  if (replaces === null || !guardHolds(row.record, replaces)) return null;
  if (row.record.state !== "retryable") return { from: stateAt(row.record, now), life: begun };
  const sameLife = row.record.id === life.id && sameFingerprint(row.record.fingerprint, life.fingerprint);
  if (!sameLife) return null;
  const { createdAt, trace } = row.record;
  const { trace: _, ...goesOn } = lifeOf(life, createdAt);
  return { from: "retryable", life: trace === undefined ? goesOn : { ...goesOn, trace } };
}

function stateAt(record: LatchkeyRecord, now: number): StateOrNone {
  switch (record.state) {
    case "completed":
    case "failed":
      return now >= record.expiresAt ? "none" : record.state;
    case "expired":
      return "none";
    default:
      return record.state;
  }
}

/** For a new life; a resumed one keeps the values with which it began. */
function keptOf({ input, addressable, summary }: NewLife): RowChange {
  return { input: input ?? null, addressable: addressable ?? false, summary: summary ?? null };
}

export function create(
  rows: MemoryRows,
  now: number,
  beginning: Beginning,
  terms: LeaseTerms,
): InProgressRecord | null {
  const begun = begunFrom(rows, now, beginning);
  if (begun === null) return null;
  const state = move(begun.from, "admit", "in_progress");
  const { life } = beginning;
  return rows.put({ ...lifeOf(life, now), state, ...leaseOf(terms, now, now) }, { terms, ...keptOf(life) });
}

export function accept(
  rows: MemoryRows,
  now: number,
  beginning: Beginning,
  expiresAfterMs: number,
): PendingRecord | null {
  const begun = begunFrom(rows, now, beginning);
  if (begun === null) return null;
  const state = move(begun.from, "accept", "pending");
  const { life } = beginning;
  return rows.put({ ...lifeOf(life, now), state, expiresAt: now + expiresAfterMs }, keptOf(life));
}

export function claimPending(
  rows: MemoryRows,
  now: number,
  wants: readonly PendingWant[],
): readonly InProgressRecord[] {
  return wants.flatMap(({ operation, tokens, terms }) => {
    const waiting = rows
      .all()
      .flatMap(({ record }) => (record.state === "pending" ? [record] : []))
      .filter((record) => record.operation === operation && now < record.expiresAt)
      .sort((left, right) => left.createdAt - right.createdAt);
    // One record for each token.
    return waiting.slice(0, tokens.length).flatMap((record, index) => {
      const token = tokens[index];
      return token === undefined ? [] : [claim(rows, now, record, token, terms)];
    });
  });
}

function claim(
  rows: MemoryRows,
  now: number,
  record: PendingRecord,
  token: string,
  terms: LeaseTerms,
): InProgressRecord {
  const state = move(record.state, "claim", "in_progress");
  const fence = { attempt: record.fence.attempt, token };
  const life = { ...lifeOf(record, record.createdAt), fence };
  return rows.put({ ...life, state, ...leaseOf(terms, record.createdAt, now) }, { terms });
}

export function recordLostTransaction(
  rows: MemoryRows,
  now: number,
  beginning: Beginning,
  errorCode: string,
): UnknownRecord | null {
  // If the record that admission read is gone, that is no reason to run again.
  const isGone = rows.record(beginning.life) === null;
  const begun = begunFrom(rows, now, isGone ? { ...beginning, replaces: null } : beginning);
  if (begun === null) return null;
  const state = move(begun.from, "lose_transaction", "unknown");
  const record = { ...begun.life, state, lastErrorCode: errorCode, reconcileAfter: null };
  return rows.put(record, begun.from === "none" ? keptOf(beginning.life) : {});
}

/** The last write of a transaction. */
export function commit(
  rows: MemoryRows,
  now: number,
  beginning: Beginning,
  answer: Uint8Array,
  retention: Retention,
): FinishedRecord | null {
  const begun = begunFrom(rows, now, beginning);
  if (begun === null) return null;
  const state = move(begun.from, "commit", "completed");
  const record = finished(begun.life, state, { answer, retention, errorCode: null }, now);
  // A new life ends with this write, so nothing has to be kept for resuming it.
  return rows.put(record, begun.from === "none" ? { summary: beginning.life.summary ?? null } : {});
}
