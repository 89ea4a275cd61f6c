/** The memory store's part in the background services: dead leases and expiry. */
import { giveUpReason } from "../../engine/decide.ts";
import type {
  ExpiredRecord,
  FinishedRecord,
  InProgressRecord,
  LatchkeyRecord,
  PendingRecord,
} from "../../engine/record.ts";
import type { Archival, ForgottenRecord } from "../archival.ts";
import type { CleanReport, EndedLease } from "../store.ts";
import type { MemoryEffects } from "./effects.ts";
import { finished, lifeOf, move } from "./life.ts";
import { removeOver } from "./messages.ts";
import type { MemoryState } from "./open-buffer.ts";
import type { KeptTerms, MemoryRows } from "./rows.ts";

export function endedLeases(rows: MemoryRows, now: number, limit: number): readonly EndedLease[] {
  const ended: (EndedLease & { readonly since: number })[] = [];
  for (const { record, terms } of rows.all()) {
    if (record.state !== "in_progress" || terms === null || now < record.leaseEndsAt) continue;
    if (giveUpReason(record, terms, now) === null) continue;
    ended.push({ record, ...terms, since: rescueAt(record, terms) });
  }
  ended.sort((left, right) => left.since - right.since);
  return ended.slice(0, limit).map(({ since: _, ...one }) => one);
}

/** When the attempt can no longer be taken over. */
function rescueAt(record: InProgressRecord, terms: KeptTerms): number {
  const { leaseEndsAt, expiresAt } = record;
  const atLeaseEnd = giveUpReason(record, terms, leaseEndsAt) !== null;
  return atLeaseEnd ? leaseEndsAt : Math.max(leaseEndsAt, expiresAt);
}

type Swept = Pick<MemoryState, "rows" | "effects" | "messages">;

export function clean(state: Swept, now: number, limit: number): CleanReport {
  const { rows } = state;
  const report = cleanWithoutForgetting(state, now, limit, () => true);
  const undelivered = recordsOfUndelivered(state.effects);
  const forgotten = take(
    rows,
    limit,
    (record) => record.state === "expired" && now >= record.forgetAt && !undelivered.has(record.id),
  );
  for (const record of forgotten) {
    move(record.state, "forget", "none");
    rows.remove(record);
  }
  return { ...report, forgotten: forgotten.length };
}

/** @param purges which answers may go alone */
function cleanWithoutForgetting(
  { rows, effects, messages }: Swept,
  now: number,
  limit: number,
  purges: (record: FinishedRecord) => boolean,
): CleanReport {
  const abandoned = take(rows, limit, (record) => record.state === "pending" && now >= record.expiresAt);
  for (const record of abandoned) if (record.state === "pending") rows.put(timedOut(record, now));
  const isOver = (record: LatchkeyRecord) => isFinished(record) && now >= record.expiresAt && purges(record);
  const purged = take(rows, limit, isOver);
  for (const record of purged) if (isFinished(record)) purge(rows, record);
  const counts = { abandoned: abandoned.length, purged: purged.length, forgotten: 0 };
  const gone = removeOver(messages, now, limit);
  return { ...counts, effects: removeDelivered(effects, now, limit), messages: gone };
}

export function memoryArchival(state: Swept, now: () => number): Archival {
  const { rows, effects } = state;
  const isDue = (record: LatchkeyRecord): record is FinishedRecord | ExpiredRecord =>
    (isFinished(record) || record.state === "expired") &&
    now() >= record.forgetAt &&
    !recordsOfUndelivered(effects).has(record.id);
  const due = (): ForgottenRecord[] =>
    rows.all().flatMap(({ record, life }) => (isDue(record) ? [{ ...record, summary: life.summary }] : []));
  return {
    clean: async (limit) =>
      cleanWithoutForgetting(state, now(), limit, ({ expiresAt, forgetAt }) => expiresAt < forgetAt),
    due: async (limit) =>
      due()
        .sort((left, right) => left.forgetAt - right.forgetAt)
        .slice(0, limit),
    async forget(records) {
      const ids = new Set(records.map(({ id }) => id));
      const gone = due().filter(({ id }) => ids.has(id));
      for (const record of gone) {
        const state = record.state === "expired" ? record.state : move(record.state, "purge", "expired");
        move(state, "forget", "none");
        rows.remove(record);
      }
      return gone.length;
    },
  };
}

/** Ids of records that may not be forgotten yet. */
function recordsOfUndelivered(effects: MemoryEffects): ReadonlySet<string> {
  const waiting = effects.all().filter(({ effect }) => effect.state !== "delivered");
  return new Set(waiting.map(({ effect }) => effect.recordId));
}

function removeDelivered(effects: MemoryEffects, now: number, limit: number): number {
  const over = effects.all().filter(({ removeAt }) => removeAt !== null && now >= removeAt);
  const removed = over.slice(0, limit);
  for (const { effect } of removed) effects.remove(effect.id);
  return removed.length;
}

function take(
  rows: MemoryRows,
  limit: number,
  isDue: (record: LatchkeyRecord) => boolean,
): readonly LatchkeyRecord[] {
  return rows
    .all()
    .map(({ record }) => record)
    .filter(isDue)
    .slice(0, limit);
}

function isFinished(record: LatchkeyRecord): record is FinishedRecord {
  return record.state === "completed" || record.state === "failed";
}

/** Kept for as long again as it has waited, so that its client can still read the outcome. */
function timedOut(record: PendingRecord, now: number): FinishedRecord {
  const state = move(record.state, "abandon", "failed");
  const waitedMs = record.expiresAt - record.createdAt;
  const retention = { retentionMs: waitedMs, forgetAfterMs: waitedMs };
  const ending = { answer: null, retention, errorCode: "timeout" };
  return finished(lifeOf(record, record.createdAt), state, ending, now);
}

function purge(rows: MemoryRows, record: FinishedRecord): void {
  const state = move(record.state, "purge", "expired");
  const { finishedAt, forgetAt } = record;
  rows.put({ ...lifeOf(record, record.createdAt), state, finishedAt, forgetAt });
}
