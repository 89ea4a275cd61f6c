/** Settling and listing, each write one step on the rows and the audit. False if the guard did not hold. */

import { giveUpReason } from "../../engine/decide.ts";
import type {
  Guard,
  InProgressRecord,
  LatchkeyRecord,
  RecordKey,
  RetryableRecord,
  UnknownRecord,
} from "../../engine/record.ts";
import { compareCodeUnits } from "../../fingerprint/code-units.ts";
import type { CallStep, Step } from "../journal.ts";
import type {
  AuditEntry,
  AuditFilter,
  AuditNote,
  ClaimedUnknown,
  RecordFilter,
  ReopenedCall,
  Settlement,
  SettlementSupport,
} from "../settlement.ts";
import { finishedCall, withStep } from "./journal.ts";
import { finished, keyOf, lifeOf, move, pointInTime } from "./life.ts";
import { guardHolds, keyText, type MemoryRow, type MemoryRows, type RowChange } from "./rows.ts";

export interface SettlementState {
  readonly rows: MemoryRows;
  /** Oldest first. Entries outlive their records. */
  readonly audit: AuditEntry[];
  readonly now: () => number;
}

export function memorySettlement({ rows, audit, now }: SettlementState): SettlementSupport {
  return {
    async settle(key, guard, settlement, note) {
      const known = audit.find(({ id }) => id === note.id);
      if (known !== undefined) return known.recordId === guard.id;
      const row = unknownRow(rows, key, guard);
      const next = row === null ? null : settled(row, settlement, now());
      if (row === null || next === null) return false;
      rows.put(next.record, next.change);
      audit.push(entryOf(row.record, next.record, settlement, note, now()));
      return true;
    },
    async hasten(key, guard, note) {
      const known = audit.find(({ id }) => id === note.id);
      if (known !== undefined) return known.recordId === guard.id;
      const row = rows.find(key);
      if (row === null || !guardHolds(row.record, guard)) return false;
      const hastened = hastenedRow(row, now());
      if (hastened === null) return false;
      rows.put(hastened.record, hastened.change);
      const { state, id: recordId } = row.record;
      const place = { at: now(), key: keyOf(row.record), recordId, effectId: null };
      audit.push({ ...note, ...place, event: hastened.event, from: state, to: state });
      return true;
    },
    claimUnknowns: async (operations, limit, claimMs) =>
      claimUnknowns(rows, now(), operations, limit, claimMs),
    async postpone(key, guard, afterMs) {
      const row = unknownRow(rows, key, guard);
      if (row === null) return false;
      rows.put({ ...row.record, reconcileAfter: pointInTime(now(), afterMs) });
      return true;
    },
    resumable: async (operations, limit) => resumable(rows, now(), operations, limit),
    list: async (filter) => list(rows, filter),
    audit: async (key) => audit.filter((entry) => keyText(entry.key) === keyText(key)).map(copyEntry),
  };
}

/** @param audit oldest first */
export function listAudit(
  audit: readonly AuditEntry[],
  { tenant, limit, before }: AuditFilter,
): readonly AuditEntry[] {
  return audit
    .filter((entry) => tenant === null || entry.key.tenant === tenant)
    .filter(({ at, id }) => before === null || at < before.at || (at === before.at && id < before.id))
    .sort((left, right) => right.at - left.at || compareCodeUnits(right.id, left.id))
    .slice(0, limit)
    .map(copyEntry);
}

/** Null if the record does not wait for a point in time. */
function hastenedRow(row: MemoryRow, now: number): (Settled & { readonly event: string }) | null {
  const { record } = row;
  const at = dueAt(row);
  if (at !== null && at <= now) return null;
  switch (record.state) {
    case "completed":
    case "failed":
      return { record: { ...record, expiresAt: now, forgetAt: now }, change: {}, event: "forget" };
    case "expired":
      return { record: { ...record, forgetAt: now }, change: {}, event: "forget" };
    case "retryable":
      return { record, change: { resumeAfter: now }, event: "retry" };
    case "unknown":
      return { record: { ...record, reconcileAfter: now }, change: {}, event: "retry" };
    case "pending":
    case "in_progress":
      return null;
    default:
      return record satisfies never;
  }
}

/** Null if the record has no such time. */
function dueAt({ record, resumeAfter }: MemoryRow): number | null {
  if ("forgetAt" in record) return record.forgetAt;
  return record.state === "unknown" ? record.reconcileAfter : resumeAfter;
}

interface UnknownRow extends MemoryRow {
  readonly record: UnknownRecord;
}

function unknownRow(rows: MemoryRows, key: RecordKey, guard: Guard): UnknownRow | null {
  const row = rows.find(key);
  if (row?.record.state !== "unknown") return null;
  return guardHolds(row.record, guard) ? { ...row, record: row.record } : null;
}

interface Settled {
  readonly record: LatchkeyRecord;
  readonly change: RowChange;
}

/** The settled record. Null if the named call is not `started` in that generation. */
function settled({ record, life }: UnknownRow, settlement: Settlement, now: number): Settled | null {
  const base = lifeOf(record, record.createdAt);
  switch (settlement.event) {
    case "settle_completed": {
      const state = move(record.state, settlement.event, "completed");
      return { record: finished(base, state, { ...settlement, errorCode: null }, now), change: {} };
    }
    case "settle_failed": {
      const state = move(record.state, settlement.event, "failed");
      return { record: finished(base, state, settlement, now), change: {} };
    }
    case "settle_not_executed": {
      const state = move(record.state, settlement.event, "retryable");
      const steps = afterNotExecuted(life.steps, settlement);
      return steps && { record: retryable(record, state), change: resumed(now, settlement, { steps }) };
    }
    case "settle_call": {
      const state = move(record.state, settlement.event, "retryable");
      const call = startedCall(life.steps, settlement);
      if (call === null) return null;
      const steps = withStep(life.steps, finishedCall(call, "finished", settlement.result, now));
      const change = resumed(now, settlement, { steps, recoveryPoint: call.name });
      return { record: retryable(record, state), change };
    }
    default:
      return settlement satisfies never;
  }
}

/** The error that led to the doubt stays visible until the life goes on. */
function retryable(record: UnknownRecord, state: "retryable"): RetryableRecord {
  return { ...lifeOf(record, record.createdAt), state, lastErrorCode: record.lastErrorCode };
}

function resumed(
  now: number,
  { resumeAfterMs }: { readonly resumeAfterMs: number | null },
  change: RowChange,
): RowChange {
  return { ...change, resumeAfter: pointInTime(now, resumeAfterMs) };
}

function startedCall(
  steps: readonly Step[],
  { call, generation }: { readonly call: string; readonly generation: number },
): CallStep | null {
  const step = steps.find(({ name }) => name === call);
  if (step?.kind !== "call") return null;
  return step.state === "started" && step.generation === generation ? step : null;
}

function afterNotExecuted(
  steps: readonly Step[],
  { calls, reopen }: Extract<Settlement, { readonly event: "settle_not_executed" }>,
): readonly Step[] | null {
  const closed = reopen === null ? null : startedCall(steps, reopen);
  if (reopen !== null && closed === null) return null;
  return steps.map((step) => {
    if (reopen !== null && step === closed) return reopened(closed, reopen);
    const happens = step.kind === "phase" || step.state !== "started" || calls === "may-repeat";
    return happens ? step : { ...step, state: "not_executed" };
  });
}

function reopened(step: CallStep, { generation, downstreamKey }: ReopenedCall): CallStep {
  return { ...step, state: "not_executed", generation: generation + 1, downstreamKey, sends: 0 };
}

function entryOf(
  before: UnknownRecord,
  after: LatchkeyRecord,
  { event }: Settlement,
  { id, actor, proof, reason }: AuditNote,
  at: number,
): AuditEntry {
  const place = { key: keyOf(before), recordId: before.id };
  return {
    id,
    actor,
    proof,
    reason,
    at,
    ...place,
    effectId: null,
    event,
    from: before.state,
    to: after.state,
  };
}

function copyEntry(entry: AuditEntry): AuditEntry {
  return { ...entry, key: { ...entry.key } };
}

function claimUnknowns(
  rows: MemoryRows,
  now: number,
  operations: readonly string[],
  limit: number,
  claimMs: number,
): readonly ClaimedUnknown[] {
  const due = rows.all().flatMap(({ record, life }) => {
    if (record.state !== "unknown" || !operations.includes(record.operation)) return [];
    const { reconcileAfter } = record;
    return reconcileAfter !== null && now >= reconcileAfter ? [{ record, dueAt: reconcileAfter, life }] : [];
  });
  return oldest(due, limit).map(({ record, life }) => {
    const tries = life.tries + 1;
    return { record: rows.put({ ...record, reconcileAfter: now + claimMs }, { tries }), tries };
  });
}

function resumable(
  rows: MemoryRows,
  now: number,
  operations: readonly string[],
  limit: number,
): readonly (InProgressRecord | RetryableRecord)[] {
  const due = rows.all().flatMap((row) => {
    const work = operations.includes(row.record.operation) ? resumableOf(row, now) : null;
    return work !== null && now >= work.dueAt ? [work] : [];
  });
  return oldest(due, limit).map(({ record }) => record);
}

function resumableOf({ record, terms, resumeAfter }: MemoryRow, now: number) {
  switch (record.state) {
    case "retryable":
      return resumeAfter === null ? null : { record, dueAt: resumeAfter };
    case "in_progress": {
      if (terms?.leaseEnd !== "resume" || giveUpReason(record, terms, now) !== null) return null;
      return { record, dueAt: record.leaseEndsAt };
    }
    default:
      return null;
  }
}

function oldest<T extends { readonly dueAt: number }>(due: readonly T[], limit: number): readonly T[] {
  return [...due].sort((left, right) => left.dueAt - right.dueAt).slice(0, limit);
}

function list(rows: MemoryRows, filter: RecordFilter): readonly LatchkeyRecord[] {
  const { state, tenant, operation, limit, after } = filter;
  return rows
    .all()
    .map(({ record }) => record)
    .filter(
      (record) =>
        record.state === state &&
        (tenant === null || record.tenant === tenant) &&
        (operation === null || record.operation === operation) &&
        (after === null || inOrder(after, record) < 0),
    )
    .sort(inOrder)
    .slice(0, limit);
}

type Listed = NonNullable<RecordFilter["after"]>;

function inOrder(left: Listed, right: Listed): number {
  return left.createdAt - right.createdAt || compareCodeUnits(left.id, right.id);
}
